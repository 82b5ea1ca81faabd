"""What all kinds of cards and plans agree on."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from firmware_configs.flash.cards.blocks import BlockDevice
from firmware_configs.flash.cards.card import HOME, JETSON_HOME, PLACES, WANTED, Card
from firmware_configs.flash.cards.image import Image
from firmware_configs.flash.cards.mounted import Mounted
from tests.firmware_configs.flash.made_cards import CARDS, flash, make_folder, make_kit


@pytest.mark.parametrize("family", CARDS)
def test_a_plan_puts_files_at_known_places_only_which_a_journal_may_name(family: str, tmp_path: Path) -> None:
    plan = flash(make_kit(tmp_path / "kits"), make_folder(tmp_path / "card", CARDS[family]))
    assert plan.puts
    assert {put.path for put in plan.puts} <= set(PLACES)
    assert plan.folder.startswith(f"{JETSON_HOME if family == 'jetson' else HOME}/")


def test_no_place_is_in_the_folder_of_kits_nor_leads_out_of_the_card() -> None:
    for place in PLACES:
        assert not place.startswith((f"{HOME}/", f"{JETSON_HOME}/", "/"))
        assert ".." not in Path(place).parts
    assert WANTED in PLACES


@pytest.mark.parametrize("kind", [Mounted, Image, BlockDevice])
def test_every_kind_of_card_has_the_same_methods(kind: type) -> None:
    for name, method in inspect.getmembers(Card, inspect.isfunction):
        if not name.startswith("_"):
            assert inspect.signature(getattr(kind, name)) == inspect.signature(method), name
    assert isinstance(kind.name, property)  # type: ignore[attr-defined]
