"""Ed25519 keys on disk."""

import os

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from core.errors import ConfigError, SignatureError
from wire.keys import (
    generate_key,
    load_private_key,
    load_public_key,
    public_key_from_hex,
    public_key_hex,
    save_private_key,
    save_public_key,
)

pytestmark = pytest.mark.light


def test_a_key_comes_back_and_only_its_owner_can_read_it(tmp_path):
    key, path = generate_key(), tmp_path / "device.key"
    save_private_key(key, path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_private_key(path).private_bytes_raw() == key.private_bytes_raw()
    assert os.listdir(tmp_path) == ["device.key"]


def test_saving_again_replaces_the_key(tmp_path):
    path = tmp_path / "device.key"
    save_private_key(generate_key(), path)
    second = generate_key()
    save_private_key(second, path)
    assert load_private_key(path).private_bytes_raw() == second.private_bytes_raw()


def test_a_public_key_comes_back_from_a_file_and_from_hex(tmp_path):
    key, path = generate_key().public_key(), tmp_path / "device.pub"
    save_public_key(key, path)
    assert load_public_key(path) == key
    assert public_key_from_hex(public_key_hex(key)) == key
    assert len(public_key_hex(key)) == 64


def test_two_keys_differ():
    assert generate_key().private_bytes_raw() != generate_key().private_bytes_raw()


def test_a_private_key_that_others_can_read_is_refused(tmp_path):
    path = tmp_path / "device.key"
    save_private_key(generate_key(), path)
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="others can read it; run chmod 600"):
        load_private_key(path)


def test_a_missing_key_says_what_to_do(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: No such file or directory; make one with"):
        load_private_key(tmp_path / "none.key")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_public_key(tmp_path)
    with pytest.raises(ConfigError, match="cannot be written"):
        save_private_key(generate_key(), tmp_path / "no" / "such" / "folder.key")


def test_a_file_that_is_no_key_is_refused(tmp_path):
    path = tmp_path / "device.key"
    for content in (b"", b"not a key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"):
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(SignatureError, match="not a private key in PEM"):
            load_private_key(path)
        with pytest.raises(SignatureError, match="not a public key in PEM"):
            load_public_key(path)


def test_a_key_of_another_kind_or_with_a_password_is_refused(tmp_path):
    path = tmp_path / "device.key"
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    other = ec.generate_private_key(ec.SECP256R1())
    path.write_bytes(other.private_bytes(encoding, form, serialization.NoEncryption()))
    path.chmod(0o600)
    with pytest.raises(SignatureError, match="not an Ed25519 one"):
        load_private_key(path)
    path.write_bytes(other.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(SignatureError, match="not an Ed25519 one"):
        load_public_key(path)
    path.write_bytes(generate_key().private_bytes(encoding, form, serialization.BestAvailableEncryption(b"pw")))
    with pytest.raises(SignatureError, match="without a password"):
        load_private_key(path)


@pytest.mark.parametrize("text", ["", "abc", "zz" * 32, "ab" * 31, "ab" * 33])
def test_hex_that_is_no_key_is_refused(text):
    with pytest.raises(SignatureError, match="must be 64 hex digits"):
        public_key_from_hex(text)
