"""A kit as a folder with its wheels."""

import stat
from pathlib import Path

import pytest

from core.errors import ConfigError, SignatureError
from firmware_configs.kits.own_wheel import own_wheel
from firmware_configs.use_cases.export_kit import export_kit
from firmware_configs.use_cases.provision_fleet import provision_fleet
from firmware_configs.use_cases.revoke_device import revoke_certificates
from tests.firmware_configs.fleets import write_manifest

pytestmark = pytest.mark.light


def test_a_folder_has_the_kit_and_its_wheels_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    kits = provision_fleet(write_manifest(tmp_path)).out
    made = export_kit(kits / "pi-01", tmp_path / "out/pi", family="bookworm")
    own = own_wheel()
    assert (made.device, made.wheels) == ("pi-01", 1)
    assert (tmp_path / "out/pi/wheels" / own.file).read_bytes() == own.data
    assert stat.S_IMODE((tmp_path / "out/pi").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "out/pi/device.key").stat().st_mode) == 0o600
    assert not (tmp_path / "out/pi/boot").exists()
    assert made.bytes == sum(path.stat().st_size for path in (tmp_path / "out").rglob("*") if path.is_file())
    with pytest.raises(ConfigError, match="is there already"):
        export_kit(kits / "pi-01", tmp_path / "out/pi")


def test_what_flash_would_refuse_is_refused(tmp_path: Path) -> None:
    kits = provision_fleet(write_manifest(tmp_path)).out
    with pytest.raises(ConfigError, match="--os 'jetson': the kit of pi-01 is for bookworm cloud-init"):
        export_kit(kits / "pi-01", tmp_path / "out", family="jetson")
    revoke_certificates(kits, "garden", "pi-01")
    with pytest.raises(ConfigError, match="its certificate was revoked"):
        export_kit(kits / "pi-01", tmp_path / "out")
    (wheel,) = kits.glob("_wheels/*/edgestill-*.whl")
    wheel.write_bytes(b"another")
    with pytest.raises(SignatureError, match="is not the wheel that was signed"):
        export_kit(kits / "pi-02", tmp_path / "out")
    assert not (tmp_path / "out").exists()
