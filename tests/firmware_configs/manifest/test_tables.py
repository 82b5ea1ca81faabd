"""The tables [provision] and [[group]], and what is asked of them without a manifest."""

from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.boards import FOLDER
from firmware_configs.manifest import certificate_days, kits_folder, load_manifest, read_boards_dir
from tests.firmware_configs.fleets import FLEET, PI, write_manifest

pytestmark = pytest.mark.light


def test_the_option_goes_before_the_file_and_profiles_of_the_user_are_found(tmp_path: Path) -> None:
    path = write_manifest(tmp_path, PI.replace("rpi-4", "rock-5"), provision='boards_dir = "boards"')
    (tmp_path / "boards").mkdir()
    (tmp_path / "boards/rock-5.toml").write_text((FOLDER / "rpi-5.toml").read_text())
    found = load_manifest(path, wheels="none", environ={})
    assert (found.wheels, found.devices[0].board.name) == ("none", "rock-5")
    with pytest.raises(ConfigError, match="--wheels is 'usb'; known: card fleet network none"):
        load_manifest(path, wheels="usb", environ={})


def test_folder_and_validity_are_read_without_secrets(tmp_path: Path) -> None:
    path = write_manifest(tmp_path, PI + 'wifi = "home"\n', provision='out = "cards"\ndays = 30\nsecrets = "none.toml"')
    assert (kits_folder(path), certificate_days(path)) == (tmp_path / "cards", 30)
    path.write_text(FLEET)
    assert kits_folder(path) is None
    assert read_boards_dir(path) is None
