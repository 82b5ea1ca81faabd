"""Kits on a card: which is armed, which is damaged, and what cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.flash.cards.blocks import BlockDevice
from firmware_configs.flash.cards.image import Image
from firmware_configs.flash.cards.mounted import Mounted
from firmware_configs.flash.cards.targets import open_target
from firmware_configs.flash.plan import make_plan
from firmware_configs.flash.show import held_kits, holder, last_error
from firmware_configs.kits.signed import open_kit
from tests.firmware_configs.flash.made_cards import (
    BOOKWORM,
    CARDS,
    IMAGER,
    JETSON,
    TRIXIE,
    flash,
    make_folder,
    make_image,
    make_kit,
    needs_tools,
)


@pytest.mark.parametrize("family", CARDS)
def test_a_flashed_card_names_its_kit_and_its_holder(family: str, tmp_path: Path) -> None:
    card = make_folder(tmp_path / "card", CARDS[family])
    assert (held_kits(Mounted(card), family), holder(Mounted(card), family)) == ([], None)
    plan = flash(make_kit(tmp_path / "kits"), card)
    (held,) = held_kits(Mounted(card), family)
    assert (held.fleet, held.device, held.board, held.folder) == ("garden", "pi-07", "rpi-4", plan.folder)
    assert (held.created, held.armed, held.unused, held.damaged) == ("2026-11-16T10:00:00Z", True, "", ())
    assert holder(Mounted(card), family) == "pi-07"


def test_a_kit_that_nothing_starts_any_more_holds_no_card(tmp_path: Path) -> None:
    card = make_folder(tmp_path / "card", BOOKWORM)
    flash(make_kit(tmp_path / "kits"), card)
    (card / "cmdline.txt").write_bytes(BOOKWORM["cmdline.txt"])
    assert [(held.device, held.armed) for held in held_kits(Mounted(card), "bookworm")] == [("pi-07", False)]
    assert holder(Mounted(card), "bookworm") is None


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"cmdline.txt": IMAGER["cmdline.txt"]}, "would take instance rpi-imager-1763000000000, not the kit's"),
        ({"meta-data": TRIXIE["meta-data"]}, "would take instance rpios-image, not the kit's"),
        ({"meta-data": b"dsmode: local\n"}, "would take instance nocloud, not the kit's"),
        ({"cmdline.txt": b"root=x cloud-init=disabled\n"}, "cloud-init=disabled"),
    ],
)
def test_a_kit_that_cloud_init_would_ignore_is_not_said_to_be_installed(
    changed: dict[str, bytes], told: str, tmp_path: Path
) -> None:
    card = make_folder(tmp_path / "card", TRIXIE)
    flash(make_kit(tmp_path / "kits"), card)
    make_folder(card, changed)
    (held,) = held_kits(Mounted(card), "cloud-init")
    assert (held.armed, told in held.unused) == (False, True)
    assert holder(Mounted(card), "cloud-init") is None


def test_a_jetson_whose_unit_is_not_enabled_does_not_install_its_kit(tmp_path: Path) -> None:
    card = make_folder(tmp_path / "card", JETSON)
    flash(make_kit(tmp_path / "kits"), card)
    (card / "etc/systemd/system/multi-user.target.wants/edgestill-firstboot.service").unlink()
    (held,) = held_kits(Mounted(card), "jetson")
    assert (held.armed, held.unused) == (False, "edgestill-firstboot.service is not enabled; flash it again")


@needs_tools
@pytest.mark.parametrize("kind", ["image", "block device"])
def test_a_card_of_imagers_is_told_the_same_in_an_image_and_on_a_disk(kind: str, tmp_path: Path) -> None:
    disk, kit = make_image(tmp_path / "card.img", IMAGER), make_kit(tmp_path / "kits")
    opened, signed = open_kit(kit, None)
    for puts in (4, 0):  # the second time there is nothing to do
        card = Image(disk) if kind == "image" else BlockDevice(disk, tmp_path / "journals")
        plan = make_plan(opened, signed, "cloud-init", card)
        assert len(plan.puts) == puts
        card.write(plan)
        (held,) = held_kits(Image(disk), "cloud-init")
        assert (held.device, held.armed, held.unused) == ("pi-07", True, "")
        assert b"ds=nocloud;i=edgestill-pi-07-0001" in (Image(disk).read("cmdline.txt") or b"")


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


@needs_tools
@pytest.mark.parametrize("kind", ["image", "folder"])
def test_why_the_last_installation_failed_is_shown_until_the_card_is_flashed(kind: str, tmp_path: Path) -> None:
    failed = {**BOOKWORM, "edgestill/last-error.txt": b"Wed Nov 18\nedgestill: no Python 3.10 or newer\n"}
    card = make_image(tmp_path / "card.img", failed) if kind == "image" else make_folder(tmp_path / "card", failed)
    assert last_error(open_target(card), "bookworm") == "Wed Nov 18\nedgestill: no Python 3.10 or newer"
    assert "edgestill/last-error.txt" in flash(make_kit(tmp_path / "kits"), card).old
    assert last_error(open_target(card), "bookworm") == ""
