"""A device's certificates are revoked and it is readmitted, by function."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509

from core.errors import ConfigError
from firmware_configs.use_cases.provision_fleet import provision_fleet
from firmware_configs.use_cases.revoke_device import has_claim, readmit, revoke_certificates
from tests.firmware_configs.fleets import PI, write_manifest

pytestmark = pytest.mark.light


def test_a_revoked_device_is_in_the_brokers_list_until_it_is_readmitted_and_renewed(tmp_path: Path) -> None:
    path = write_manifest(tmp_path)
    kits = provision_fleet(path).out
    done = revoke_certificates(kits, "garden", "pi-01")
    assert done.count == 1
    cert = x509.load_pem_x509_certificate((kits / "pi-01/tls/device.pem").read_bytes())
    crl = x509.load_pem_x509_crl(done.crl.read_bytes())
    assert [entry.serial_number for entry in crl] == [cert.serial_number]
    with pytest.raises(ConfigError, match="pi-01 was revoked"):
        provision_fleet(path, renew=["pi-01"])
    readmit(kits, "garden", "pi-01")
    assert provision_fleet(path, renew=["pi-01"]).done.renewed == ["pi-01"]


def test_a_claim_counts_before_its_board_was_heard_of(tmp_path: Path) -> None:
    kits = provision_fleet(write_manifest(tmp_path, PI + 'enrol = "claim"\n')).out
    assert has_claim(kits, "garden", "pi-01")
    assert not has_claim(kits, "garden", "pi-09")
