"""A mounted card holds the old kit or the new one, whole, whenever the run is cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.flash.cards.card import Plan, Put
from firmware_configs.flash.cards.mounted import Mounted
from firmware_configs.flash.show import held_kits
from firmware_configs.kits.kit import KitFile
from tests.firmware_configs.flash.made_cards import BOOKWORM, CARDS, CMDLINE, flash, killed, make_folder, make_kit, tree

POINTS = ["flash-kit-half", "flash-kit-copied", "flash-staged", "flash-journal", "flash-moved", "flash-moved:2"]
POINTS += ["flash-put"]
LINK = "etc/systemd/system/multi-user.target.wants/edgestill-firstboot.service"
STARTERS = {
    "bookworm": "cmdline.txt",
    "cloud-init": "user-data",
    "jetson": "etc/systemd/system/edgestill-firstboot.service",
}


@pytest.mark.parametrize("family", CARDS)
def test_what_was_on_the_card_stays_but_for_what_starts_the_kit(family: str, tmp_path: Path) -> None:
    card = make_folder(tmp_path / "card", CARDS[family])
    plan = flash(make_kit(tmp_path / "kits"), card)
    after = tree(card)
    changed = {put.path for put in plan.puts}
    assert {name: data for name, data in CARDS[family].items() if name not in changed}.items() <= after.items()
    for name, file in plan.files.items():
        assert after[f"{plan.folder}/{name}"] == file.data
    assert b"@KIT@" not in b"".join(after.values())
    (held,) = held_kits(Mounted(card), family)
    assert (held.device, held.armed, held.damaged) == ("pi-07", True, ())


@pytest.mark.parametrize("family", CARDS)
def test_flashing_the_same_kit_again_changes_nothing(family: str, tmp_path: Path) -> None:
    card, kit = make_folder(tmp_path / "card", CARDS[family]), make_kit(tmp_path / "kits")
    flash(kit, card)
    before = tree(card)
    assert flash(kit, card).puts == ()
    assert tree(card) == before


@pytest.mark.parametrize("family", CARDS)
def test_a_new_kit_leaves_nothing_of_the_old_one(family: str, tmp_path: Path) -> None:
    once, twice = (make_folder(tmp_path / name, CARDS[family]) for name in ("once", "twice"))
    flash(make_kit(tmp_path / "kits", "pi-01"), twice)
    for card in (once, twice):
        flash(make_kit(tmp_path / "kits", "pi-02"), card)
    assert tree(twice) == tree(once)


@pytest.mark.parametrize("family", CARDS)
@pytest.mark.parametrize("at", POINTS)
@pytest.mark.parametrize("first", [True, False], ids=["fresh", "again"])
def test_a_run_that_is_cut_leaves_the_old_state_or_the_new(family: str, at: str, first: bool, tmp_path: Path) -> None:
    card, wanted = (make_folder(tmp_path / name, CARDS[family]) for name in ("card", "wanted"))
    kit = make_kit(tmp_path / "kits", "pi-02")
    if not first:
        for folder in (card, wanted):
            flash(make_kit(tmp_path / "kits", "pi-01"), folder)
    old = tree(card)
    flash(kit, wanted)
    new = tree(wanted)
    cut = killed(at, lambda: flash(kit, card))
    assert cut or at in ("flash-journal", "flash-moved", "flash-moved:2")  # one file needs no journal
    now, starter = tree(card), STARTERS[family]
    if now.get(starter) != old.get(starter):  # what a board boots with is new: so is all else
        assert {name for name in new if now.get(name) != new[name]} <= {LINK}
    elif family != "cloud-init":  # old: so is all that it uses
        assert {name: now.get(name) for name in old} == old
    else:
        assert {name for name in old if now.get(name) != old[name]} <= {"meta-data", "network-config"}
    Mounted(card)  # the next who opens it
    then = tree(card)
    if then.get(starter) == old.get(starter):
        assert {name: then.get(name) for name in old} == old
    else:
        assert new.items() <= then.items()
    flash(kit, card)
    assert tree(card) == new


def test_a_card_that_reads_back_something_else_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card, kit = make_folder(tmp_path / "card", BOOKWORM), make_kit(tmp_path / "kits")
    real = Mounted._copy_kit

    def rotten(self: Mounted, plan: Plan) -> None:
        real(self, plan)
        (card / plan.folder / "device.key").write_bytes(b"bits fell over")

    monkeypatch.setattr(Mounted, "_copy_kit", rotten)
    with pytest.raises(ConfigError, match=r"device\.key reads back differently"):
        flash(kit, card)
    assert (card / "cmdline.txt").read_bytes() == CMDLINE


def test_a_link_on_the_card_does_not_lead_to_files_of_this_machine(tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.mkdir()
    (host / "secret").write_bytes(b"of this machine")
    card = make_folder(tmp_path / "card", {"config.txt": b""})
    (card / "edgestill").symlink_to(host)
    (card / "cmdline.txt").symlink_to(host / "secret")
    opened = Mounted(card)
    assert opened.read("cmdline.txt") is None
    with pytest.raises(ConfigError, match="leads out of the card"):
        opened.read("edgestill/secret")
    with pytest.raises(ConfigError, match="leads out of the card"):
        opened.names("edgestill")
    plan = Plan(device="a", family="bookworm", folder="edgestill/a", files={"f": KitFile(b"x")}, puts=(Put("p"),))
    with pytest.raises(ConfigError, match="leads out of the card"):
        opened.write(plan)
    assert [path.name for path in host.iterdir()] == ["secret"]


@pytest.mark.parametrize(
    ("journal", "told"),
    [
        (b"", "damaged"),
        (b"\x00\xff garbage", "damaged"),
        (b"[" * 60_000, "damaged"),
        (b'{"puts": 3}', "damaged"),
        (b'{"puts": [["../../x", "cmdline.txt"]]}', "would put a file"),
        (b'{"puts": [["0", "config.txt"]]}', "would put a file at 'config.txt'"),
        (b'{"puts": [["0", "../../etc/passwd"]]}', "would put a file"),
        (b'{"puts": ' + b" " * 100_000 + b"[]}", "larger than"),
    ],
)
def test_garbage_in_a_cards_journal_is_told_and_nothing_is_moved(journal: bytes, told: str, tmp_path: Path) -> None:
    card = make_folder(tmp_path / "card", {**BOOKWORM, "edgestill/stage/0": b"staged", "edgestill/journal": journal})
    before = tree(card)
    with pytest.raises(ConfigError, match="edgestill/journal") as refused:
        Mounted(card)
    assert told in str(refused.value)
    assert "remove it" in str(refused.value)
    assert tree(card) == before


def test_a_journal_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    card = make_folder(tmp_path / "card", {**BOOKWORM, "edgestill/stage/0": b"staged"})
    (card / "edgestill" / "journal").symlink_to("nowhere")
    with pytest.raises(ConfigError, match="symbolic link"):
        Mounted(card)
