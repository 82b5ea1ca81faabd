"""Flashing as a function: no command line, no printing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from core.errors import ConfigError, SignatureError
from firmware_configs.flash.flashed import read_flashed
from firmware_configs.use_cases import flash_kit as module
from firmware_configs.use_cases.flash_kit import FlashOptions, flash_kit, flash_next, read_card
from tests.firmware_configs.flash.made_cards import BOOKWORM, TRIXIE, make_folder, make_kit, tree

pytestmark = pytest.mark.light


def test_a_kit_is_written_remembered_and_read_back(tmp_path: Path) -> None:
    kit, card = make_kit(tmp_path / "kits"), make_folder(tmp_path / "card", TRIXIE)
    done = flash_kit(kit, card, FlashOptions())
    assert (done.plan.device, done.plan.family, done.written) == ("pi-07", "cloud-init", True)
    assert done.overwritten == {"network-config", "meta-data", "cmdline.txt", "user-data"}
    assert read_flashed(tmp_path / "kits")["pi-07"].target == str(card)
    content = read_card(card)
    assert content.family == "cloud-init"
    assert [(held.device, held.armed, held.damaged) for held in content.kits] == [("pi-07", True, ())]


def test_a_dry_run_tells_every_file_and_writes_none(tmp_path: Path) -> None:
    kit, card = make_kit(tmp_path / "kits"), make_folder(tmp_path / "card", BOOKWORM)
    before = tree(tmp_path)
    done = flash_kit(kit, card, FlashOptions(dry_run=True))
    assert tree(tmp_path) == before
    assert not done.written
    facts = done.facts()
    assert {"path": f"{done.plan.folder}/tls/device.key", "bytes": 3000, "secret": True} in facts["files"]
    assert facts["changed"][0]["path"] == "cmdline.txt"
    assert done.overwritten == {"cmdline.txt"}
    assert "SECRET" not in str(facts)


def test_next_takes_every_kit_once(tmp_path: Path) -> None:
    for device in ("pi-01", "pi-02"):
        make_kit(tmp_path / "kits", device)
    cards = [make_folder(tmp_path / f"card-{n}", BOOKWORM) for n in range(3)]
    done = [flash_next(tmp_path / "kits", card, FlashOptions()).plan.device for card in cards[:2]]
    assert done == ["pi-01", "pi-02"]
    with pytest.raises(ConfigError, match="all 2 kits for bookworm have been flashed"):
        flash_next(tmp_path / "kits", cards[2], FlashOptions())
    with pytest.raises(ConfigError, match="no such folder"):
        flash_next(tmp_path / "nowhere", cards[2], FlashOptions())


def test_the_card_of_another_device_is_replaced_only_when_asked(tmp_path: Path) -> None:
    one, other = make_kit(tmp_path / "kits", "pi-01"), make_kit(tmp_path / "kits", "pi-02")
    card = make_folder(tmp_path / "card", BOOKWORM)
    flash_kit(one, card, FlashOptions())
    with pytest.raises(ConfigError, match="holds the kit of pi-01"):
        flash_kit(other, card, FlashOptions())
    assert flash_kit(other, card, FlashOptions(replace=True)).plan.device == "pi-02"


def test_a_kit_that_was_changed_touches_no_card(tmp_path: Path) -> None:
    kit, card = make_kit(tmp_path / "kits"), make_folder(tmp_path / "card", BOOKWORM)
    (kit / "install.sh").write_text("reboot\n")
    before = tree(card)
    with pytest.raises(SignatureError):
        flash_kit(kit, card, FlashOptions())
    assert tree(card) == before


def test_which_disk_it_is_is_reported_before_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kit, card = make_kit(tmp_path / "kits"), make_folder(tmp_path / "card", BOOKWORM)
    before = tree(card)
    said: list[str] = []

    def report(text: str) -> None:
        assert tree(card) == before
        said.append(text)

    monkeypatch.setattr(module, "examine", lambda _: SimpleNamespace(about="a card of 32 GB"))
    flash_kit(kit, card, FlashOptions(dry_run=True), report=report)
    assert said == []  # a folder is no disk
    monkeypatch.setattr(Path, "is_block_device", lambda _: True)
    flash_kit(kit, card, FlashOptions(), report=report)
    assert said == [f"{card} is a card of 32 GB"]
    assert tree(card) != before
