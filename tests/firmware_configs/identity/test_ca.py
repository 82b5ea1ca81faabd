"""The fleet's authority: what it issues, takes back and remembers."""

import stat
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from core.errors import ConfigError
from firmware_configs.identity.ca import new_key, open_authority

pytestmark = pytest.mark.light


def test_a_certificate_names_its_device_and_serves_clients_only(tmp_path: Path) -> None:
    with open_authority(tmp_path, "home", days=10) as authority:
        cert = authority.issue("pi-07", new_key().public_key(), purpose="client", days=5)
    cert.verify_directly_issued_by(authority.cert)
    (name,) = cert.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert name.value == "pi-07"
    usage = cert.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert not cert.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    life = cert.not_valid_after_utc - datetime.now(timezone.utc)
    assert timedelta(days=4.9) < life <= timedelta(days=5)


def test_a_certificate_never_outlives_its_authority(tmp_path: Path) -> None:
    with open_authority(tmp_path, "home", days=10) as authority:
        cert = authority.issue("pi-07", new_key().public_key(), purpose="client", days=5000)
    assert cert.not_valid_after_utc == authority.cert.not_valid_after_utc


def test_the_authority_is_made_once_and_only_its_owner_reads_the_key(tmp_path: Path) -> None:
    with open_authority(tmp_path / "a", "home", days=10) as first:
        pass
    with open_authority(tmp_path / "a", "home", days=10) as second:
        assert second.cert == first.cert
    assert stat.S_IMODE((tmp_path / "a" / "ca.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


def test_revoked_is_revoked_after_a_restart_and_in_the_list(tmp_path: Path) -> None:
    with open_authority(tmp_path, "home", days=10) as authority:
        lost = [authority.issue("lost", new_key().public_key(), purpose="client", days=5) for _ in range(2)]
        kept = authority.issue("kept", new_key().public_key(), purpose="client", days=5)
        assert len(authority.revoke("lost")) == 2
        assert authority.revoke("lost") == []
        authority.save()
    with open_authority(tmp_path, "home") as again:
        assert [again.revoked(cert.serial_number) for cert in (*lost, kept)] == [True, True, False]
    crl = x509.load_pem_x509_crl((tmp_path / "crl.pem").read_bytes())
    assert crl.is_signature_valid(authority.cert.public_key())  # type: ignore[arg-type]
    assert {entry.serial_number for entry in crl} == {cert.serial_number for cert in lost}
    assert crl.next_update_utc == authority.cert.not_valid_after_utc


def test_another_fleets_authority_is_not_used(tmp_path: Path) -> None:
    with open_authority(tmp_path, "home", days=10):
        pass
    with pytest.raises(ConfigError, match="authority of another fleet"), open_authority(tmp_path, "garden", days=10):
        pass


def test_no_authority_is_made_by_looking_for_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="run `edgestill provision` first"), open_authority(tmp_path, "home"):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("broken", ["ca.pem", "ca.key", "issued.json"])
def test_a_damaged_authority_is_named(tmp_path: Path, broken: str) -> None:
    with open_authority(tmp_path, "home", days=10) as authority:
        authority.save()
    (tmp_path / broken).write_text("junk")
    with pytest.raises(ConfigError, match=broken), open_authority(tmp_path, "home"):
        pass


def test_a_key_of_another_authority_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with open_authority(tmp_path / name, "home", days=10):
            pass
    (tmp_path / "a" / "ca.key").write_bytes((tmp_path / "b" / "ca.key").read_bytes())
    with pytest.raises(ConfigError, match="not the key of"), open_authority(tmp_path / "a", "home"):
        pass


def test_two_processes_take_turns(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from firmware_configs.identity.ca import new_key, open_authority\n"
        "with open_authority(Path(sys.argv[1]), 'home') as a:\n"
        "    a.issue(sys.argv[2], new_key().public_key(), purpose='client', days=1); a.save()"
    )
    with open_authority(tmp_path, "home", days=10) as authority:
        children = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in ("b", "c")]
        authority.issue("a", new_key().public_key(), purpose="client", days=1)
        authority.save()
    assert [child.wait(120) for child in children] == [0, 0]
    with open_authority(tmp_path, "home") as again:
        assert sorted(entry.name for entry in again.issued) == ["a", "b", "c"]
