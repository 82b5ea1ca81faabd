"""The root file system of a Jetson, inside an image: written without mounting, checked by e2fsck."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.flash.cards.ext import Ext
from firmware_configs.flash.cards.image import Image, copy_sparse
from firmware_configs.flash.cards.partitions import Partition
from firmware_configs.flash.show import held_kits
from firmware_configs.kits.bootfiles import FIRSTBOOT
from tests.firmware_configs.flash.made_cards import (
    JETSON,
    TOOLS_PATH,
    flash,
    killed,
    make_folder,
    make_kit,
    tree,
)

EXT_TOOLS = ("debugfs", "e2fsck", "mke2fs", "sfdisk")
MISSING = [tool for tool in EXT_TOOLS if shutil.which(tool, path=TOOLS_PATH) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"no {', '.join(MISSING)}: apt-get install e2fsprogs fdisk")
START, SECTORS = 4096, 32768


def run(program: str, *arguments: str, stdin: str = "") -> str:
    tool = shutil.which(program, path=TOOLS_PATH)
    assert tool is not None
    done = subprocess.run([tool, *arguments], input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def jetson(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image as NVIDIA makes them: a GPT whose first partition is the root file system."""
    folder = tmp_path_factory.mktemp("jetson")
    path, root = folder / "jetson.img", make_folder(folder / "root", JETSON)
    with path.open("wb") as file:
        file.truncate((START + SECTORS + 4096) * 512)
    run("sfdisk", "--quiet", str(path), stdin=f"label: gpt\nstart={START}, size={SECTORS}\nstart={START + SECTORS}\n")
    run("mke2fs", "-q", "-t", "ext4", "-d", str(root), "-E", f"offset={START * 512}", str(path), f"{SECTORS // 2}k")
    return path


@pytest.fixture
def card(jetson: Path, tmp_path: Path) -> Path:
    copy_sparse(jetson, tmp_path / "card.img")
    return tmp_path / "card.img"


def extracted(image: Path, folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    run("debugfs", "-R", f"rdump / {folder}", f"{image}?offset={START * 512}")
    return {name: data for name, data in tree(folder).items() if not name.startswith("lost+found")}


def test_an_image_holds_what_a_mounted_root_would(card: Path, tmp_path: Path) -> None:
    mounted = make_folder(tmp_path / "mounted", JETSON)
    for device in ("pi-01", "pi-02"):
        kit = make_kit(tmp_path / "kits", device)
        flash(kit, card)
        flash(kit, mounted)
    assert extracted(card, tmp_path / "image") == tree(mounted)
    wants = f"etc/systemd/system/multi-user.target.wants/{FIRSTBOOT}"
    assert Image(card).link(wants) == f"/etc/systemd/system/{FIRSTBOOT}"
    assert [(held.device, held.armed, held.damaged) for held in held_kits(Image(card), "jetson")] == [
        ("pi-02", True, ())
    ]
    run("e2fsck", "-f", "-n", f"{card}?offset={START * 512}")
    entries = run(
        "debugfs", "-R", f"ls -p /{held_kits(Image(card), 'jetson')[0].folder}", f"{card}?offset={START * 512}"
    )
    modes = {line.split("/")[5]: tuple(line.split("/")[2:5]) for line in entries.splitlines() if line}
    assert modes["device.key"] == ("100600", "0", "0")
    assert modes["install.sh"] == ("100755", "0", "0")


def test_nothing_outside_of_the_partition_changes_and_flashing_again_changes_nothing(
    card: Path, tmp_path: Path
) -> None:
    before, kit = card.read_bytes(), make_kit(tmp_path / "kits")
    flash(kit, card)
    after = card.read_bytes()
    end = (START + SECTORS) * 512
    assert (after[: START * 512], after[end:]) == (before[: START * 512], before[end:])
    assert after != before
    assert flash(kit, card).puts == ()


@pytest.mark.parametrize("at", ["flash-image-copied", "flash-image-written", "flash-image-put"])
def test_killed_at_any_point_the_image_is_the_old_one_or_the_new_one(card: Path, tmp_path: Path, at: str) -> None:
    kit, before = make_kit(tmp_path / "kits"), card.read_bytes()
    assert killed(at, lambda: flash(kit, card))
    if at == "flash-image-put":
        assert [held.armed for held in held_kits(Image(card), "jetson")] == [True]
    else:
        assert card.read_bytes() == before


def test_a_root_that_was_not_unmounted_is_refused_and_left(card: Path, tmp_path: Path) -> None:
    run("debugfs", "-w", "-R", "feature needs_recovery", f"{card}?offset={START * 512}")
    before = card.read_bytes()
    with pytest.raises(ConfigError, match="was not unmounted; run e2fsck"):
        flash(make_kit(tmp_path / "kits"), card)
    assert card.read_bytes() == before


def test_a_full_root_is_told_and_left(card: Path, tmp_path: Path) -> None:
    before = card.read_bytes()
    with pytest.raises(ConfigError, match=r"debugfs: .*allocate"):
        flash(make_kit(tmp_path / "kits", size=20 << 20), card)
    assert card.read_bytes() == before


def test_a_file_system_without_a_table_is_read_too(tmp_path: Path) -> None:
    path, root = tmp_path / "system.img", make_folder(tmp_path / "root", JETSON)
    run("mke2fs", "-q", "-t", "ext4", "-d", str(root), str(path), "8M")
    assert Image(path).partition == Partition(0, 0, 8 << 20)
    ext = Ext(path, Partition(0, 0, 8 << 20))
    assert ext.names("etc") == ["nv_tegra_release", "systemd"]
    assert (ext.read("etc/systemd"), ext.read("etc/nothing"), ext.link("etc/nv_tegra_release")) == (None, None, None)
    assert ext.names("nothing") == []
