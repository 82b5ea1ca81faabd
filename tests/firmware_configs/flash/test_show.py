"""Kits on a card: which is armed, which is damaged, and what cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.flash.cards.mounted import Mounted
from firmware_configs.flash.show import held_kits, holder
from tests.firmware_configs.flash.made_cards import BOOKWORM, CARDS, flash, make_folder, make_kit


@pytest.mark.parametrize("family", CARDS)
def test_a_flashed_card_names_its_kit_and_its_holder(family: str, tmp_path: Path) -> None:
    card = make_folder(tmp_path / "card", CARDS[family])
    assert (held_kits(Mounted(card), family), holder(Mounted(card), family)) == ([], None)
    plan = flash(make_kit(tmp_path / "kits"), card)
    (held,) = held_kits(Mounted(card), family)
    assert (held.fleet, held.device, held.board, held.folder) == ("garden", "pi-07", "rpi-4", plan.folder)
    assert (held.created, held.armed, held.damaged) == ("2026-11-16T10:00:00Z", True, ())
    assert holder(Mounted(card), family) == "pi-07"


def test_a_kit_that_nothing_starts_any_more_holds_no_card(tmp_path: Path) -> None:
    card = make_folder(tmp_path / "card", BOOKWORM)
    flash(make_kit(tmp_path / "kits"), card)
    (card / "cmdline.txt").write_bytes(BOOKWORM["cmdline.txt"])
    assert [(held.device, held.armed) for held in held_kits(Mounted(card), "bookworm")] == [("pi-07", False)]
    assert holder(Mounted(card), "bookworm") is None


def test_of_two_folders_only_the_one_that_is_named_whole_is_armed(tmp_path: Path) -> None:
    card = make_folder(tmp_path / "card", BOOKWORM)
    first = flash(make_kit(tmp_path / "kits"), card).folder
    (card / first / "agent.toml").write_bytes(b"rot")
    second = flash(make_kit(tmp_path / "kits"), card).folder  # the same name with -2 behind it
    (card / first).mkdir()
    (card / first / "kit.json").write_bytes((card / second / "kit.json").read_bytes())
    assert {held.folder: held.armed for held in held_kits(Mounted(card), "bookworm")} == {first: False, second: True}


def test_files_that_are_missing_or_changed_are_named_and_no_secret_is_shown(tmp_path: Path) -> None:
    card = make_folder(tmp_path / "card", BOOKWORM)
    folder = card / flash(make_kit(tmp_path / "kits"), card).folder
    (folder / "device.key").write_bytes(b"SECRET of another")
    (folder / "tls/ca.pem").unlink()
    (held,) = held_kits(Mounted(card), "bookworm")
    assert sorted(held.damaged) == ["device.key", "tls/ca.pem"]
    assert "SECRET" not in repr(held)


@pytest.mark.parametrize("content", [b"", b"{", b'{"fleet": "x"}', b"[" * 60_000])
def test_a_manifest_that_cannot_be_read_is_told_and_a_folder_without_one_is_not_ours(
    content: bytes, tmp_path: Path
) -> None:
    card = make_folder(tmp_path / "card", {**BOOKWORM, "edgestill/wheels/torch.whl": b"x"})
    assert held_kits(Mounted(card), "bookworm") == []
    make_folder(card, {"edgestill/pi-07/kit.json": content})
    with pytest.raises(ConfigError, match=r"card: edgestill/pi-07/kit\.json is damaged; flash the card again$"):
        held_kits(Mounted(card), "bookworm")
