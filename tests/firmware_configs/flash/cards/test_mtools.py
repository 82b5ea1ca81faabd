"""FAT inside of a file, by mtools."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.flash.cards.image import copy_sparse
from firmware_configs.flash.cards.mtools import Fat
from firmware_configs.flash.cards.partitions import Partition, fat_partitions
from tests.firmware_configs.flash.made_cards import check_fat, make_folder, make_image, needs_tools

pytestmark = needs_tools
FILES = {
    "config.txt": b"dtparam=audio=on\n",
    "overlays/A long name.dtbo": b"\x00\xff\n",
    "edgestill/pi-07/kit.json": b"{}",
    "edgestill/pi-07/tls/ca.pem": b"authority",
    "edgestill/wheels/torch.whl": b"large",
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_image(tmp_path_factory.mktemp("images") / "base.img", FILES)


@pytest.fixture
def fat(base: Path, tmp_path: Path) -> Fat:
    copy_sparse(base, tmp_path / "card.img")
    with (tmp_path / "card.img").open("rb") as disk:
        (partition,) = fat_partitions(disk, "card.img")
    return Fat(tmp_path / "card.img", partition)


def test_folders_are_listed_and_files_read_as_they_are(fat: Fat) -> None:
    assert fat.names() == ["config.txt", "edgestill", "overlays"]
    assert fat.names("overlays") == ["A long name.dtbo"]
    assert fat.read("overlays/A long name.dtbo") == b"\x00\xff\n"
    assert (fat.names("none"), fat.read("none"), fat.link("config.txt")) == ([], None, None)


def test_our_own_folder_is_read_without_its_wheels(fat: Fat) -> None:
    assert fat.names("edgestill") == ["pi-07"]
    assert fat.names("edgestill/pi-07") == ["kit.json", "tls"]
    assert fat.read("edgestill/pi-07/tls/ca.pem") == b"authority"
    assert fat.read("edgestill/wheels/torch.whl") is None


def test_what_was_added_replaces_files_and_what_was_removed_is_gone_at_once(fat: Fat, tmp_path: Path) -> None:
    assert fat.read("edgestill/pi-07/kit.json") == b"{}"  # from here on, the folder is remembered
    fat.add(make_folder(tmp_path / "new", {"config.txt": b"new", "edgestill/pi-08/kit.json": b"[]"}))
    assert (fat.read("config.txt"), fat.read("edgestill/pi-08/kit.json")) == (b"new", b"[]")
    fat.remove("edgestill/pi-07")
    assert fat.names("edgestill") == ["pi-08"]
    assert fat.read("overlays/A long name.dtbo") == b"\x00\xff\n"
    check_fat(fat.path, tmp_path)


def test_the_users_own_settings_of_mtools_do_not_count(
    fat: Fat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".mtoolsrc").write_text("nonsense nonsense\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MTOOLSRC", str(tmp_path / ".mtoolsrc"))
    assert fat.read("config.txt") == FILES["config.txt"]


def test_what_cannot_be_done_is_told_with_the_image_and_the_program(fat: Fat, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"card\.img: mdeltree: .+"):
        fat.remove("none")


def test_without_mtools_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(ConfigError, match="apt-get install mtools"):
        Fat(tmp_path / "card.img", Partition(1, 0, 512))


def test_names_that_are_one_in_eight_letters_are_several_files(fat: Fat, tmp_path: Path) -> None:
    """Both are EDGEST~1.SER; mtools can be told to overwrite the one by the other."""
    names = (
        "edgestill/pi-07/edgestill-agent.service",
        "edgestill/pi-07/edgestill-upgrade.service",
        "overlays/a longer.dtbo",
    )
    for content in (b"first", b"second"):
        fat.add(make_folder(tmp_path / content.decode(), {name: content + name.encode() for name in names}))
        assert [fat.read(name) for name in names] == [content + name.encode() for name in names]
    assert fat.read("overlays/A long name.dtbo") == b"\x00\xff\n"
    check_fat(fat.path, tmp_path)
