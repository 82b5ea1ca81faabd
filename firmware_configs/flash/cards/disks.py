"""Disks that may be overwritten: removable ones that are not in use. Linux only, from /sys and /proc."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from core.errors import ConfigError

__all__ = ["Disk", "check_disk", "examine"]

SYSTEM = ("/", "/boot", "/boot/efi", "/boot/firmware", "/etc", "/home", "/opt", "/usr", "/var")


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A block device as seen by the system."""

    name: str  # sdb
    size: int  # bytes
    model: str
    removable: bool
    partition: bool  # a part of a disk
    mounts: tuple[str, ...]  # where it, or a part of it, is mounted
    used: bool  # by swap, LVM, encryption or RAID

    @property
    def about(self) -> str:
        """Size and model, so that the user can recognise it."""
        return f"{self.name}, {self.size / 1e9:.1f} GB, {self.model or 'no model name'}"


def examine(device: Path, *, root: Path = Path("/"), number: str | None = None) -> Disk:
    """The properties of the block device; `root` and `number` (major:minor) are for tests."""
    if number is None:
        if not sys.platform.startswith("linux"):
            raise ConfigError(f"{device}: block devices are supported on Linux only; give the mounted boot partition")
        status = os.stat(device).st_rdev
        number = f"{os.major(status)}:{os.minor(status)}"
    folder = (root / "sys/dev/block" / number).resolve()
    if not folder.is_dir():
        raise ConfigError(f"{device}: the system has no such disk ({number})")
    parts = [folder, *(child.parent for child in folder.glob("*/partition"))]
    numbers = {_text(part / "dev") for part in parts}
    swaps = (root / "proc/swaps").read_text() if (root / "proc/swaps").exists() else ""
    return Disk(
        name=folder.name,
        size=int(_text(folder / "size") or 0) * 512,
        model=" ".join(f"{_text(folder / 'device/vendor')} {_text(folder / 'device/model')}".split())
        or _text(folder / "device/name"),
        # a built-in reader reports itself as fixed, but its cards have a type
        removable=_text(folder / "removable") == "1" or _text(folder / "device/type") == "SD",
        partition=(folder / "partition").exists(),
        mounts=tuple(sorted(_mounts(root, numbers))),
        used=any(any((part / "holders").glob("*")) for part in parts)
        or any(f"/dev/{part.name} " in swaps for part in parts),
    )


def check_disk(disk: Disk, device: Path, *, yes: bool) -> None:
    """Refuse a disk that must not be overwritten, or without `yes`."""
    if disk.partition:
        raise ConfigError(f"{device}: a partition; give the whole disk, or the folder where the partition is mounted")
    if disk.used or any(place in SYSTEM for place in disk.mounts):
        raise ConfigError(f"{device} ({disk.about}): this machine runs from it; give the card's device")
    if not disk.removable:
        raise ConfigError(f"{device} ({disk.about}): not removable, so probably not a card; it is not written")
    if disk.mounts:
        where = " ".join(disk.mounts)
        raise ConfigError(f"{device} ({disk.about}): mounted at {where}; unmount it, or flash to that folder")
    if not disk.size:
        raise ConfigError(f"{device}: no card is in it")
    if not yes:
        raise ConfigError(f"{device} is {disk.about}: if that is the card, confirm with --yes")


def _mounts(root: Path, numbers: set[str]) -> Iterator[str]:
    """mountinfo: the third word is major:minor, the fifth where it is mounted (a space as \\040)."""
    for line in (root / "proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        if words[2] in numbers:
            yield words[4].replace("\\040", " ")


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
