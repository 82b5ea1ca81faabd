"""A kit is verified without the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import SignatureError
from firmware_configs.use_cases.provision_fleet import provision_fleet
from firmware_configs.use_cases.revoke_device import revoke_certificates
from firmware_configs.use_cases.verify_kit import verify_kit
from tests.firmware_configs.fleets import PI, write_manifest

pytestmark = pytest.mark.light


def test_a_whole_kit_tells_what_it_proves_itself_with(tmp_path: Path) -> None:
    kits = provision_fleet(write_manifest(tmp_path)).out
    found = verify_kit(kits / "pi-01")
    assert (found.kit.device, found.proof, found.revoked) == ("pi-01", "certificate", False)
    assert found.facts()["certificate_until"] == found.until
    revoke_certificates(kits, "garden", "pi-01")
    assert verify_kit(kits / "pi-01").revoked
    assert not verify_kit(kits / "pi-02").revoked


def test_a_board_that_makes_its_own_keys_has_a_claim(tmp_path: Path) -> None:
    kits = provision_fleet(write_manifest(tmp_path, PI + 'enrol = "claim"\n')).out
    assert verify_kit(kits / "pi-01").proof == "claim"


def test_a_changed_kit_is_refused(tmp_path: Path) -> None:
    kits = provision_fleet(write_manifest(tmp_path)).out
    (kits / "pi-01" / "agent.toml").write_text("")
    with pytest.raises(SignatureError):
        verify_kit(kits / "pi-01")
