"""What `--to` names: a folder, an image, a disk, or nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.errors import ConfigError
from firmware_configs.flash.cards import targets
from firmware_configs.flash.cards.image import Image
from firmware_configs.flash.cards.mounted import Mounted
from firmware_configs.flash.cards.targets import open_target
from tests.firmware_configs.flash.made_cards import BOOKWORM, make_folder, make_image, needs_tools


def test_a_folder_is_a_mounted_card_which_reading_alone_does_not_finish(tmp_path: Path) -> None:
    journal = b'{"puts": [["0", "cmdline.txt"]]}'
    card = make_folder(tmp_path, {**BOOKWORM, "edgestill/stage/0": b"staged", "edgestill/journal": journal})
    seen = open_target(card, read_only=True)
    assert isinstance(seen, Mounted)
    assert (seen.recovered, (card / "edgestill/journal").exists()) == (False, True)
    opened = open_target(card)
    assert isinstance(opened, Mounted)
    assert (opened.recovered, opened.read("cmdline.txt")) == (True, b"staged")


@needs_tools
def test_a_file_is_an_image_and_with_another_it_is_the_one_to_make(tmp_path: Path) -> None:
    base = make_image(tmp_path / "base.img", BOOKWORM)
    image = open_target(base)
    assert isinstance(image, Image)
    assert image.out == base
    made = open_target(tmp_path / "new.img", base=base)
    assert isinstance(made, Image)
    assert (made.path, made.out) == (base, tmp_path / "new.img")
    assert not (tmp_path / "new.img").exists()


def test_a_disk_is_checked_before_it_is_opened_unless_it_is_only_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[Any] = []
    monkeypatch.setattr(Path, "is_block_device", lambda path: path.name == "sdx")
    monkeypatch.setattr(targets, "examine", lambda path: f"facts of {path.name}")
    monkeypatch.setattr(targets, "check_disk", lambda facts, path, *, yes: done.append((facts, yes)))
    monkeypatch.setattr(targets, "BlockDevice", lambda path, journals, *, recover: done.append(("open", recover)))
    open_target(tmp_path / "sdx", yes=True)
    assert done == [("facts of sdx", True), ("open", True)]
    done.clear()
    open_target(tmp_path / "sdx", read_only=True)
    assert done == [("open", False)]


@pytest.mark.parametrize(
    ("target", "base", "says"),
    [
        ("nowhere", None, "nowhere: no such folder, image or disk"),
        ("new.img", "nowhere.img", r"nowhere\.img: no such image; give the file of an unpacked disk image"),
        ("folder", "base.img", "folder: not an image; with --from, give the name of the image to create"),
    ],
)
def test_what_cannot_be_opened_is_told_by_name(tmp_path: Path, target: str, base: str | None, says: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "base.img").write_bytes(b"")
    with pytest.raises(ConfigError, match=says):
        open_target(tmp_path / target, base=None if base is None else tmp_path / base)
