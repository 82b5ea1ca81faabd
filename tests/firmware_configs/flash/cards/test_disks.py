"""Only a removable disk that nobody uses is written to. A folder stands for /sys and /proc."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.flash.cards.disks import Disk, check_disk, examine

DEVICE = Path("/dev/sdb")


def system(
    root: Path, *, removable: str = "1", mounts: str = "", swaps: str = "", kind: str = "", size: int = 62333952
) -> Path:
    """A machine with one disk, sdb (8:16), with a partition sdb1 (8:17)."""
    disk = root / "sys/devices/usb/block/sdb"
    for path, text in {
        "dev": "8:16",
        "size": str(size),
        "removable": removable,
        "device/vendor": "Generic ",
        "device/model": "SD Card Reader  ",
        "device/type": kind,
        "sdb1/dev": "8:17",
        "sdb1/partition": "1",
        "sdb1/size": "1048576",
    }.items():
        (disk / path).parent.mkdir(parents=True, exist_ok=True)
        (disk / path).write_text(f"{text}\n")
    for folder in (disk / "holders", disk / "sdb1/holders", root / "sys/dev/block", root / "proc/self"):
        folder.mkdir(parents=True, exist_ok=True)
    for number, place in {"8:16": disk, "8:17": disk / "sdb1"}.items():
        (root / "sys/dev/block" / number).symlink_to(place)
    (root / "proc/self/mountinfo").write_text(f"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n{mounts}")
    (root / "proc/swaps").write_text(f"Filename Type Size Used Priority\n{swaps}")
    return root


def look(root: Path, number: str = "8:16") -> Disk:
    return examine(DEVICE, root=root, number=number)


def refusal(root: Path, *, yes: bool = True, number: str = "8:16") -> str:
    with pytest.raises(ConfigError) as caught:
        check_disk(look(root, number), DEVICE, yes=yes)
    return str(caught.value)


def test_a_card_in_a_reader_may_be_written_to_when_the_user_says_so(tmp_path: Path) -> None:
    disk = look(system(tmp_path))
    check_disk(disk, DEVICE, yes=True)
    assert disk.about == "sdb, 31.9 GB, Generic SD Card Reader"


def test_without_yes_the_size_and_the_model_are_shown_first(tmp_path: Path) -> None:
    said = refusal(system(tmp_path), yes=False)
    assert said == "/dev/sdb is sdb, 31.9 GB, Generic SD Card Reader: if that is the card, confirm with --yes"


def test_a_fixed_disk_is_refused(tmp_path: Path) -> None:
    assert "not removable" in refusal(system(tmp_path, removable="0"))


def test_a_card_in_a_built_in_reader_is_known_by_its_type(tmp_path: Path) -> None:
    check_disk(look(system(tmp_path, removable="0", kind="SD")), DEVICE, yes=True)


def test_the_memory_that_is_soldered_on_is_no_card(tmp_path: Path) -> None:
    assert "not removable" in refusal(system(tmp_path, removable="0", kind="MMC"))


@pytest.mark.parametrize("place", ["/", "/boot/firmware", "/home"])
def test_the_disk_that_the_machine_runs_from_is_refused(place: str, tmp_path: Path) -> None:
    assert "runs from it" in refusal(system(tmp_path, mounts=f"30 22 8:17 / {place} rw - ext4 /dev/sdb1 rw\n"))


def test_a_mounted_card_is_refused_with_the_place_to_use_instead(tmp_path: Path) -> None:
    said = refusal(system(tmp_path, mounts="30 22 8:17 / /media/me/my\\040card rw - vfat /dev/sdb1 rw\n"))
    assert "mounted at /media/me/my card; unmount it, or flash to that folder" in said


@pytest.mark.parametrize("held", ["holders/dm-0", "sdb1/holders/md0"])
def test_a_disk_below_lvm_or_raid_is_refused(held: str, tmp_path: Path) -> None:
    root = system(tmp_path)
    (root / "sys/devices/usb/block/sdb" / held).mkdir()
    assert "runs from it" in refusal(root)


def test_a_disk_with_swap_is_refused(tmp_path: Path) -> None:
    assert "runs from it" in refusal(system(tmp_path, swaps="/dev/sdb1 partition 1 0 -2\n"))


def test_a_partition_is_not_the_disk(tmp_path: Path) -> None:
    assert "give the whole disk" in refusal(system(tmp_path), number="8:17")


def test_a_reader_without_a_card_is_refused(tmp_path: Path) -> None:
    assert "no card is in it" in refusal(system(tmp_path, size=0))


def test_a_device_that_the_system_does_not_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the system has no such disk"):
        look(system(tmp_path), "9:9")
