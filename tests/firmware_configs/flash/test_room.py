"""Wheels go where there is room, and a card without room is refused before anything is written."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.flash.cards.ext import Ext
from firmware_configs.flash.cards.image import Image
from firmware_configs.flash.cards.mounted import Mounted
from firmware_configs.flash.cards.partitions import ext_partitions
from firmware_configs.kits.kit import KitFetch
from firmware_configs.use_cases.flash_kit import FlashOptions, flash_kit
from tests.firmware_configs.flash.made_cards import (
    BOOKWORM,
    CARDS,
    TOOLS_PATH,
    add_wheels,
    killed,
    make_folder,
    make_image,
    make_kit,
    needs_tools,
    tree,
)

MB = 2**20
ROOT = "var/lib/edgestill-wheels"


@pytest.mark.light
@pytest.mark.parametrize("family", CARDS)
def test_a_mounted_card_gets_the_kits_wheels_and_no_others(tmp_path: Path, family: str) -> None:
    kit, card = make_kit(tmp_path / "kits"), make_folder(tmp_path / "card", CARDS[family])
    data = add_wheels(kit, {"torch-2.whl": MB, "rich-1.whl": 999})
    home = "var/lib/edgestill-kits" if family == "jetson" else "edgestill"
    make_folder(card, {f"{home}/wheels/old-1.whl": b"old", f"{home}/wheels/rich-1.whl": b"cut"})
    done = flash_kit(kit, card, FlashOptions())
    assert {path.name: path.read_bytes() for path in (card / home / "wheels").iterdir()} == data
    assert done.facts()["wheels"] == {name: len(content) for name, content in sorted(data.items())}
    before = {path: path.stat().st_mtime_ns for path in (card / home / "wheels").iterdir()}
    flash_kit(kit, card, FlashOptions())
    assert {path: path.stat().st_mtime_ns for path in (card / home / "wheels").iterdir()} == before


@pytest.mark.light
def test_a_run_that_is_cut_between_wheels_changes_nothing_that_boots(tmp_path: Path) -> None:
    kit, card = make_kit(tmp_path / "kits"), make_folder(tmp_path / "card", BOOKWORM)
    data = add_wheels(kit, {"torch-2.whl": MB})
    assert killed("flash-wheel", lambda: flash_kit(kit, card, FlashOptions()))
    assert (card / "cmdline.txt").read_bytes() == BOOKWORM["cmdline.txt"]
    flash_kit(kit, card, FlashOptions())
    assert {path.name: path.read_bytes() for path in (card / "edgestill/wheels").iterdir()} == data


@pytest.mark.light
def test_a_card_without_room_is_refused_with_the_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kit, card = make_kit(tmp_path / "kits"), make_folder(tmp_path / "card", BOOKWORM)
    add_wheels(kit, {"torch-2.whl": 3 * MB})
    monkeypatch.setattr(Mounted, "free", lambda self: 10 * MB)
    before = tree(card)
    with pytest.raises(
        ConfigError, match=r"card: the kit takes 3\.\d MB and the card has 2\.1 MB to spare; flash an image"
    ):
        flash_kit(kit, card, FlashOptions())
    assert tree(card) == before
    monkeypatch.setattr(Mounted, "free", lambda self: 12 * MB)
    flash_kit(kit, card, FlashOptions())
    monkeypatch.setattr(Mounted, "free", lambda self: 9 * MB)
    flash_kit(kit, card, FlashOptions())  # the wheels are there already


@pytest.mark.light
@pytest.mark.parametrize(("always", "free"), [(True, 500), (False, 10)])
def test_a_card_without_wheels_is_flashed_if_its_board_fetches_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, always: bool, free: int
) -> None:
    kit, card = make_kit(tmp_path / "kits"), make_folder(tmp_path / "card", BOOKWORM)
    add_wheels(kit, {"torch-2.whl": 3 * MB, "rich-1.whl": 100}, KitFetch("http://10.0.0.2:8090", always))
    monkeypatch.setattr(Mounted, "free", lambda self: free * MB)
    if always:
        shutil.rmtree(tmp_path / "kits/_wheels")  # it may be on another machine
    done = flash_kit(kit, card, FlashOptions())
    assert not (card / "edgestill/wheels").exists()
    assert (done.facts()["wheels"], done.facts()["wheels_in"]) == ({}, None)
    assert done.plan.notes[-1] == (
        "the board fetches 2 wheels (3.1 MB) from http://10.0.0.2:8090; run `edgestill kit serve` there"
    )
    assert (card / "edgestill").is_dir()


@pytest.mark.light
def test_a_card_with_room_gets_its_wheels_although_its_board_could_fetch_them(tmp_path: Path) -> None:
    kit, card = make_kit(tmp_path / "kits"), make_folder(tmp_path / "card", BOOKWORM)
    data = add_wheels(kit, {"rich-1.whl": 999}, KitFetch("http://10.0.0.2:8090", always=False))
    flash_kit(kit, card, FlashOptions())
    assert {path.name: path.read_bytes() for path in (card / "edgestill/wheels").iterdir()} == data


@needs_tools
def test_an_image_gets_its_wheels_on_the_boot_partition(tmp_path: Path) -> None:
    kit, image = make_kit(tmp_path / "kits"), make_image(tmp_path / "card.img", BOOKWORM)
    data = add_wheels(kit, {"torch-2.10.0+k1-cp311.whl": 5 * MB, "rich-1.whl": 999})
    flash_kit(kit, image, FlashOptions())
    card = Image(image)
    for name, content in data.items():
        assert card.digest(f"edgestill/wheels/{name}") == hashlib.sha256(content).hexdigest()
    free = card.free()
    add_wheels(kit, {"rich-1.whl": 999})
    flash_kit(kit, image, FlashOptions())
    assert Image(image).free() > free + 4 * MB  # what the new kit does not have is removed


@needs_tools
@pytest.mark.skipif(shutil.which("mke2fs", path=TOOLS_PATH) is None, reason="no mke2fs: apt-get install e2fsprogs")
def test_wheels_that_the_boot_partition_cannot_hold_go_to_the_root_file_system(tmp_path: Path) -> None:
    kit = make_kit(tmp_path / "kits")
    image = make_image(tmp_path / "card.img", {**BOOKWORM, "kernel8.img": bytes(28 * MB)}, mb=90)
    root, offset = make_folder(tmp_path / "root", {"etc/hostname": b"pi\n"}), (8192 + 81920) * 512
    tool = shutil.which("mke2fs", path=TOOLS_PATH)
    made = [
        tool,
        "-q",
        "-t",
        "ext4",
        "-d",
        root,
        "-E",
        f"offset={offset}",
        image,
        f"{(90 * MB - offset) // 1024 - 1024}k",
    ]
    subprocess.run(list(map(str, made)), check=True, capture_output=True)
    data = add_wheels(kit, {"torch-2.whl": 6 * MB, "rich-1.whl": 999})
    done = flash_kit(kit, image, FlashOptions())
    assert done.facts()["wheels_in"] == ROOT
    assert any(note.startswith(f"the wheels (6.3 MB) go to /{ROOT}") for note in done.plan.notes)
    with image.open("rb") as disk:
        (partition,) = ext_partitions(disk, "card.img")
    ext = Ext(image, partition)
    assert {name: ext.read(f"{ROOT}/{name}") for name in ext.names(ROOT)} == data
    assert Image(image).names("edgestill/wheels") == []
    add_wheels(kit, {"torch-2.whl": 60 * MB})
    before = image.read_bytes()
    with pytest.raises(
        ConfigError, match=r"takes 63\.2 MB and the card has .* MB to spare, its root file system \d+\.\d MB; grow the"
    ):
        flash_kit(kit, image, FlashOptions())
    assert image.read_bytes() == before
