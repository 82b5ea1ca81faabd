"""A card in a reader is finished by whoever opens it next. A plain file stands for the device."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.flash.cards.blocks import BlockDevice, journal_folder
from firmware_configs.flash.cards.image import copy_sparse
from firmware_configs.flash.plan import make_plan
from firmware_configs.flash.show import held_kits
from firmware_configs.kits.signed import open_kit
from tests.firmware_configs.flash.made_cards import BOOKWORM, check_fat, killed, make_image, make_kit, needs_tools

pytestmark = needs_tools


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_image(tmp_path_factory.mktemp("images") / "bookworm.img", BOOKWORM)


@pytest.fixture
def card(base: Path, tmp_path: Path) -> Path:
    copy_sparse(base, tmp_path / "sdx")
    return tmp_path / "sdx"


def write(kit: Path, card: Path, journals: Path) -> None:
    device = BlockDevice(card, journals)
    opened, signed = open_kit(kit, None)
    device.write(make_plan(opened, signed, "bookworm", device))


def test_the_kit_is_on_the_card_and_the_journal_is_gone(card: Path, tmp_path: Path) -> None:
    write(make_kit(tmp_path / "kits"), card, tmp_path / "journals")
    (held,) = held_kits(BlockDevice(card, tmp_path / "journals"), "bookworm")
    assert (held.device, held.armed, held.damaged) == ("pi-07", True, ())
    assert list((tmp_path / "journals").iterdir()) == []
    check_fat(card, tmp_path)


@pytest.mark.parametrize("at", ["flash-journal", "flash-block", "flash-block:5"])
def test_a_card_that_was_cut_is_finished_when_it_is_opened(at: str, card: Path, tmp_path: Path) -> None:
    kit, before, journals = make_kit(tmp_path / "kits"), card.read_bytes(), tmp_path / "journals"
    assert killed(at, lambda: write(kit, card, journals))
    (journal,) = journals.iterdir()
    assert journal.stat().st_mode & 0o777 == 0o600
    device = BlockDevice(card, journals)
    assert device.recovered == (at != "flash-journal")
    if device.recovered:
        (held,) = held_kits(device, "bookworm")
        assert (held.armed, held.damaged) == (True, ())
        assert list(journals.iterdir()) == []
        check_fat(card, tmp_path)
    else:
        assert card.read_bytes() == before
    write(kit, card, journals)
    assert list(journals.iterdir()) == []


def test_another_card_from_the_same_image_is_left_alone(card: Path, base: Path, tmp_path: Path) -> None:
    kit, journals, other = make_kit(tmp_path / "kits"), tmp_path / "journals", tmp_path / "sdy"
    copy_sparse(base, other)
    assert killed("flash-block:5", lambda: write(kit, card, journals))
    untouched = other.read_bytes()
    assert not BlockDevice(other, journals).recovered
    assert other.read_bytes() == untouched
    assert BlockDevice(card, journals).recovered


def test_a_look_changes_nothing(card: Path, tmp_path: Path) -> None:
    assert killed("flash-block:5", lambda: write(make_kit(tmp_path / "kits"), card, tmp_path / "journals"))
    cut = card.read_bytes()
    BlockDevice(card, tmp_path / "journals", recover=False)
    assert card.read_bytes() == cut


def test_a_card_that_may_not_be_read_asks_for_sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ConfigError, match="with sudo"):
        BlockDevice(tmp_path / "sdx", tmp_path)


def test_journals_are_kept_where_states_of_users_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert journal_folder() == tmp_path / "edgestill"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert journal_folder() == Path("/home/me/.local/state/edgestill")
