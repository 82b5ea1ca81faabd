"""What a plan puts where, what it keeps, and what it leaves alone."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.flash.cards.mounted import Mounted
from firmware_configs.flash.instance import effective_instance
from firmware_configs.flash.plan import home_of, kit_tag, make_plan, on_board
from firmware_configs.flash.show import held_kits
from firmware_configs.kits.signed import open_kit
from tests.firmware_configs.flash.made_cards import (
    BOOKWORM,
    CARDS,
    CMDLINE,
    IMAGER,
    JETSON,
    TRIXIE,
    flash,
    make_folder,
    make_kit,
    tree,
)


def test_a_pi_with_bookworm_runs_the_script_of_the_kit(tmp_path: Path) -> None:
    card = make_folder(tmp_path / "card", BOOKWORM)
    plan = flash(make_kit(tmp_path / "kits"), card)
    after = tree(card)
    script = f"/boot/firmware/{plan.folder}/firstrun.sh"
    assert after["cmdline.txt"].startswith(CMDLINE.rstrip())
    assert f" systemd.run={script} ".encode() in after["cmdline.txt"]
    assert after[f"{plan.folder}/firstrun.sh"].count(f'"/boot/firmware/{plan.folder}"'.encode()) >= 1
    assert after["edgestill/before/cmdline.txt"] == CMDLINE


def test_a_pi_with_cloud_init_gets_its_files(tmp_path: Path) -> None:
    card = make_folder(tmp_path / "card", TRIXIE)
    plan = flash(make_kit(tmp_path / "kits"), card)
    after = tree(card)
    assert f"/boot/firmware/{plan.folder}".encode() in after["user-data"]
    assert b"instance-id" in after["meta-data"]
    assert b"dsmode: local\n" in after["meta-data"]
    assert b"IEEE" in after["network-config"]
    assert after["edgestill/before/user-data"] == TRIXIE["user-data"]
    assert after["cmdline.txt"] == CMDLINE.rstrip() + b" cgroup_enable=memory\n"
    assert plan.puts[-1].path == "user-data"


def boot(card: Path, folder: str) -> None:
    """What the kit's first command does on the board."""
    shutil.rmtree(card / folder)


def test_a_card_of_imagers_runs_the_kit_although_it_has_booted(tmp_path: Path) -> None:
    card, kit = make_folder(tmp_path / "card", IMAGER), make_kit(tmp_path / "kits")
    plan = flash(kit, card)
    after = tree(card)
    assert after["cmdline.txt"] == CMDLINE.rstrip() + b" ds=nocloud;i=edgestill-pi-07-0001 cgroup_enable=memory\n"
    assert b'instance-id: "edgestill-pi-07-0001"\n' in after["meta-data"]
    assert b"rpios-image" not in after["meta-data"]
    assert after["edgestill/before/cmdline.txt"] == IMAGER["cmdline.txt"]
    assert IMAGER["user-data"] in after["user-data"]
    assert any("cmdline.txt named the instance rpi-imager-1763000000000" in note for note in plan.notes)
    assert plan.puts[-1].path == "user-data"
    assert flash(kit, card).puts == ()
    assert tree(card) == after


@pytest.mark.parametrize("files", [TRIXIE, IMAGER], ids=["image", "imager"])
def test_a_kit_that_is_flashed_again_after_its_boot_is_a_new_instance(files: dict[str, bytes], tmp_path: Path) -> None:
    card, kit, found = make_folder(tmp_path / "card", files), make_kit(tmp_path / "kits"), []
    for _ in range(3):
        folder = flash(kit, card).folder
        found.append(effective_instance((card / "cmdline.txt").read_bytes(), (card / "meta-data").read_bytes()))
        (held,) = held_kits(Mounted(card), "cloud-init")
        assert held.armed
        boot(card, folder)
    assert found == ["edgestill-pi-07-0001", "edgestill-pi-07-0001.2", "edgestill-pi-07-0001.3"]


def test_a_card_that_cloud_init_would_not_read_is_refused_and_stays(tmp_path: Path) -> None:
    card = make_folder(tmp_path / "card", {**TRIXIE, "cmdline.txt": CMDLINE.rstrip() + b" cloud-init=disabled\n"})
    before = tree(card)
    with pytest.raises(ConfigError, match=r"card: cmdline\.txt has cloud-init=disabled, .*; remove that word$"):
        flash(make_kit(tmp_path / "kits"), card)
    assert tree(card) == before


def test_a_wifi_of_the_users_stays(tmp_path: Path) -> None:
    mine = b"version: 2\nwifis:\n  wlan0:\n    access-points: {attic: {password: x}}\n"
    card = make_folder(tmp_path / "card", {**TRIXIE, "network-config": mine})
    plan = flash(make_kit(tmp_path / "kits"), card)
    assert (card / "network-config").read_bytes() == mine
    assert any("already has a Wi-Fi" in note for note in plan.notes)


def test_our_own_wifi_is_replaced_when_a_card_is_flashed_again(tmp_path: Path) -> None:
    card = make_folder(tmp_path / "card", TRIXIE)
    flash(make_kit(tmp_path / "kits"), card)
    ours = (card / "network-config").read_bytes()
    (card / "network-config").write_bytes(ours.replace(b"IEEE", b"OLD"))
    flash(make_kit(tmp_path / "kits", "pi-08"), card)
    assert (card / "network-config").read_bytes() == ours


def test_a_jetson_gets_a_unit_that_is_enabled(tmp_path: Path) -> None:
    card = make_folder(tmp_path / "card", JETSON)
    plan = flash(make_kit(tmp_path / "kits"), card)
    after = tree(card)
    unit = "etc/systemd/system/edgestill-firstboot.service"
    assert f"ExecStart=/bin/sh /{plan.folder}/install.sh".encode() in after[unit]
    link = after["etc/systemd/system/multi-user.target.wants/edgestill-firstboot.service"]
    assert link == f"/{unit}".encode()
    assert (card / plan.folder / "device.key").stat().st_mode & 0o777 == 0o600
    assert (card / plan.folder / "install.sh").stat().st_mode & 0o777 == 0o755


def test_a_damaged_kit_on_the_card_is_not_written_over_while_it_may_be_booted(tmp_path: Path) -> None:
    card, kit = make_folder(tmp_path / "card", BOOKWORM), make_kit(tmp_path / "kits")
    folder = flash(kit, card).folder
    (card / folder / "agent.toml").write_bytes(b"rot")
    (held,) = held_kits(Mounted(card), "bookworm")
    assert held.damaged == ("agent.toml",)
    assert flash(kit, card).folder == f"{folder}-2"
    (held,) = held_kits(Mounted(card), "bookworm")
    assert (held.folder, held.armed, held.damaged) == (f"{folder}-2", True, ())


def test_a_kit_that_was_not_made_for_the_card_is_told_with_what_it_was_made_for(tmp_path: Path) -> None:
    kit, signed = open_kit(make_kit(tmp_path / "kits"), None)
    card = Mounted(make_folder(tmp_path / "card", BOOKWORM))
    with pytest.raises(ConfigError, match="has boot files for bookworm cloud-init jetson, but the card is x;"):
        make_plan(kit, signed, "x", card)
    bare = replace(kit, os=(), files={n: f for n, f in kit.files.items() if not n.startswith("boot/")})
    with pytest.raises(ConfigError, match="boot files for nothing, but the card is bookworm; add it to 'os'"):
        make_plan(bare, signed, "bookworm", card)


def test_the_users_own_file_is_kept_once_and_not_replaced_by_one_of_ours(tmp_path: Path) -> None:
    card = make_folder(tmp_path / "card", BOOKWORM)
    assert flash(make_kit(tmp_path / "kits", "pi-01"), card).before == {"cmdline.txt": CMDLINE}
    plan = flash(make_kit(tmp_path / "kits", "pi-02"), card)
    assert ([put.path for put in plan.puts], plan.before) == (["cmdline.txt"], {})
    assert (card / "edgestill/before/cmdline.txt").read_bytes() == CMDLINE


@pytest.mark.parametrize("family", CARDS)
def test_what_starts_the_kit_is_put_last_and_the_kits_before_are_to_go(family: str, tmp_path: Path) -> None:
    card = make_folder(tmp_path / "card", CARDS[family])
    first = flash(make_kit(tmp_path / "kits", "pi-01"), card)
    (card / home_of(family) / "mine").mkdir()
    kit, signed = open_kit(make_kit(tmp_path / "kits", "pi-02"), None)
    plan = make_plan(kit, signed, family, Mounted(card))
    assert plan.old == (first.folder,)
    assert on_board(family, plan.folder).encode() in plan.puts[-1].data


def test_the_folder_of_a_kit_names_its_device_and_changes_with_its_content(tmp_path: Path) -> None:
    made = (make_kit(tmp_path / "kits", created=f"2026-11-1{day}T10:00:00Z") for day in (6, 7))
    tags = [kit_tag(kit, signed["kit.json"]) for kit, signed in (open_kit(path, None) for path in made)]
    assert len(set(tags)) == 2
    assert all(tag.startswith("pi-07-") and len(tag) == len("pi-07-") + 8 for tag in tags)
