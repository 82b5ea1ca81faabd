"""A bundle opens with its own key alone, and only as it was made."""

import io
import subprocess
from pathlib import Path

import pytest

from firmware_configs.on_board.bundles import (
    MAGIC,
    RefusedError,
    copy_bundle,
    newer,
    open_bundle,
    openssl_verifies,
    unpack,
)
from wire.ids import digest_of
from wire.keys import generate_key, save_public_key

pytestmark = pytest.mark.light


def sealed(manifest: bytes, signature: bytes = b"s" * 64) -> io.BytesIO:
    return io.BytesIO(MAGIC + len(manifest).to_bytes(4, "big") + manifest + signature + b"wheels")


def test_nothing_is_read_before_the_signature_is_right() -> None:
    with pytest.raises(RefusedError, match="signature"):
        open_bundle(sealed(b"not json"), lambda *_: False)
    file = sealed(b'{"schema":1}')
    assert open_bundle(file, lambda data, signature: data == MAGIC + b'{"schema":1}' and signature == b"s" * 64)
    assert file.read() == b"wheels"


@pytest.mark.parametrize("data", [b"", MAGIC, b"x" * 400, MAGIC + b"\xff" * 4, MAGIC + b"\0\0\0\1{" + b"s" * 63])
def test_what_is_no_bundle_is_refused(data: bytes) -> None:
    with pytest.raises(RefusedError):
        open_bundle(io.BytesIO(data), lambda *_: True)


def test_a_bundle_of_another_form_says_what_to_do() -> None:
    with pytest.raises(RefusedError, match="schema 2; push a newer kit"):
        open_bundle(sealed(b'{"schema":2}'), lambda *_: True)


def test_openssl_knows_the_signature_of_the_key_and_no_other(tmp_path: Path) -> None:
    key = generate_key()
    save_public_key(key.public_key(), tmp_path / "key.pub")
    verify = openssl_verifies(str(tmp_path / "key.pub"))
    assert verify(b"manifest", key.sign(b"manifest"))
    assert not verify(b"manifest!", key.sign(b"manifest"))
    assert not verify(b"manifest", generate_key().sign(b"manifest"))
    assert not openssl_verifies(str(tmp_path / "gone"))(b"manifest", key.sign(b"manifest"))


@pytest.mark.parametrize(
    ("version", "than", "expected"),
    [
        ("0.3.0", "0.2.9", True),
        ("0.10", "0.9.9+k1", True),
        ("1", "1.0.0", True),
        ("0.2.0+k2", "0.2.0+k1", True),
        ("0.1.9", "0.2", False),
    ],
)
def test_which_version_is_at_least_as_new(version: str, than: str, expected: bool) -> None:
    assert newer(version, than) is expected


def test_wheels_are_unpacked_with_their_hashes_and_nowhere_else(tmp_path: Path) -> None:
    first, second = b"one" * 1000, b"two"
    wheels = {
        "a-1-py3-none-any.whl": {"sha256": digest_of(first), "bytes": len(first)},
        "b-1-py3-none-any.whl": {"sha256": digest_of(second), "bytes": len(second)},
    }
    unpack(io.BytesIO(first + second), wheels, tmp_path / "wheels")
    assert (tmp_path / "wheels/b-1-py3-none-any.whl").read_bytes() == second
    with pytest.raises(RefusedError, match=r"b-1-py3-none-any\.whl is not the wheel"):
        unpack(io.BytesIO(first + b"tw"), wheels, tmp_path / "cut")
    with pytest.raises(RefusedError, match="name of a wheel"):
        unpack(io.BytesIO(first), {"../a.whl": wheels["a-1-py3-none-any.whl"]}, tmp_path / "other")


def test_a_copy_is_bounded_and_tells_its_digest(tmp_path: Path) -> None:
    assert copy_bundle(io.BytesIO(b"data"), tmp_path / "copy") == digest_of(b"data")
    assert (tmp_path / "copy").read_bytes() == b"data"


def test_openssl_is_there() -> None:
    assert subprocess.run(["openssl", "version"], capture_output=True, check=False).returncode == 0
