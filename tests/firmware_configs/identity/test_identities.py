"""Certificates that serve, keys that are made once."""

import stat
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from core.errors import ConfigError
from firmware_configs.identity.ca import open_authority, public_pem
from firmware_configs.identity.identities import ends, key_of_file, make_tls, serves, signing_pem, tls_files

pytestmark = pytest.mark.light


def test_a_certificate_no_longer_serves_when_it_is_revoked_ends_soon_or_lacks_a_name(tmp_path: Path) -> None:
    with (
        open_authority(tmp_path, "home", days=400) as authority,
        open_authority(tmp_path / "other", "away", days=400) as other,
    ):
        good = make_tls(authority, "broker", purpose="server", days=100, alternatives=["b.lan", "10.0.0.2"]).cert
        assert serves(good, authority, alternatives=["10.0.0.2", "b.lan"])
        assert not serves(good, authority, alternatives=["c.lan"])
        assert not serves(good, other)
        soon = make_tls(authority, "broker", purpose="server", days=29).cert
        assert not serves(soon, authority)
        authority.revoke("broker")
        assert not serves(good, authority)


def test_tls_files_are_made_again_only_when_they_must_be(tmp_path: Path) -> None:
    with open_authority(tmp_path / "ca", "home", days=400) as authority:
        folder = tmp_path / "broker"

        def made(*names: str) -> bool:
            return tls_files(folder, authority, "broker", purpose="server", days=100, alternatives=names)

        assert made("a.lan")
        first = (folder / "broker.pem").read_bytes()
        assert not made("a.lan")
        assert (folder / "broker.pem").read_bytes() == first
        assert made("a.lan", "b.lan")
        assert (folder / "ca.pem").read_bytes() == public_pem(authority.cert)
        assert stat.S_IMODE((folder / "broker.key").stat().st_mode) == 0o600


def test_a_certificate_that_is_none_is_told_with_its_file(tmp_path: Path) -> None:
    with open_authority(tmp_path / "ca", "home", days=400) as authority:
        folder = tmp_path / "broker"
        assert tls_files(folder, authority, "broker", purpose="server", days=100)
        (folder / "broker.pem").write_text("no certificate")
        with pytest.raises(ConfigError, match=r"broker/broker\.pem: not a certificate in PEM .*; remove it"):
            tls_files(folder, authority, "broker", purpose="server", days=100)


def test_a_certificate_fits_its_key_and_ends_when_it_was_asked_to(tmp_path: Path) -> None:
    with open_authority(tmp_path, "home", days=400) as authority:
        made = make_tls(authority, "pi-07", purpose="client", days=100)
    key = serialization.load_pem_private_key(made.key, None)
    cert = x509.load_pem_x509_certificate(made.cert)
    assert cert.public_key() == key.public_key()
    assert abs(ends(made.cert) - datetime.now(timezone.utc) - timedelta(days=100)) < timedelta(hours=1)


def test_a_signing_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "aggregator.key"
    made = key_of_file(path)
    assert signing_pem(made) == signing_pem(key_of_file(path)) == path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(ConfigError, match=r"there is no folder .*nowhere; create it first"):
        key_of_file(tmp_path / "nowhere" / "a.key")


def test_a_link_to_a_disk_that_is_not_mounted_makes_no_second_key(tmp_path: Path) -> None:
    (tmp_path / "a.key").symlink_to(tmp_path / "disk" / "a.key")
    with pytest.raises(ConfigError, match="cannot be read"):
        key_of_file(tmp_path / "a.key")
    assert (tmp_path / "a.key").is_symlink()
