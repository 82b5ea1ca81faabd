"""Which devices have their cards is remembered beside the kits."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.flash.flashed import next_kit, only_one, read_flashed, remember
from tests.firmware_configs.flash.made_cards import make_kit


def test_kits_are_taken_one_after_the_other_by_name(tmp_path: Path) -> None:
    for device in ("pi-02", "pi-01", "pi-10"):
        make_kit(tmp_path, device)
    (tmp_path / "_fleet").mkdir()
    (tmp_path / ".pi-00.new").mkdir()
    (tmp_path / ".pi-00.new/kit.json").write_text("{}")
    for device in ("pi-01", "pi-02", "pi-10"):
        assert next_kit(tmp_path, "bookworm") == tmp_path / device
        remember(tmp_path, device, b"manifest", Path("/media/card"))
    with pytest.raises(ConfigError, match="all 3 kits for bookworm have been flashed"):
        next_kit(tmp_path, "bookworm")
    assert read_flashed(tmp_path)["pi-10"].target == "/media/card"


def test_a_kit_that_is_not_made_for_the_card_is_passed_over(tmp_path: Path) -> None:
    for device in ("oven", "pi-01"):
        make_kit(tmp_path, device)
    manifest = tmp_path / "oven" / "kit.json"
    manifest.write_text(manifest.read_text().replace('"bookworm",', "").replace('"cloud-init",', ""))
    assert next_kit(tmp_path, "bookworm") == tmp_path / "pi-01"
    assert next_kit(tmp_path, "jetson") == tmp_path / "oven"
    with pytest.raises(ConfigError, match="none of the 2 kits is for generic"):
        next_kit(tmp_path, "generic")


def test_a_folder_without_kits_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no kits there"):
        next_kit(tmp_path, "bookworm")


def test_a_record_that_cannot_be_read_is_not_taken_for_none(tmp_path: Path) -> None:
    make_kit(tmp_path)
    (tmp_path / "flashed.json").write_text('{"pi-07": 3}')
    with pytest.raises(ConfigError, match=r"flashed\.json: .*fix it"):
        next_kit(tmp_path, "bookworm")


def test_two_at_once_do_not_take_the_same_kit(tmp_path: Path) -> None:
    with only_one(tmp_path), pytest.raises(ConfigError, match="another `edgestill flash`"), only_one(tmp_path):
        pass
    with only_one(tmp_path):
        pass
