"""A disk image: the FAT boot partition inside it, written in a copy that then takes the image's place by one rename.

So an image is the old one or the new one at every moment, whatever happens, at the cost of room for the copy while it
is made; holes of a sparse image stay holes, and file systems that share blocks (Btrfs, XFS) copy nothing.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from firmware_configs.flash.card import BEFORE, Plan
from firmware_configs.flash.mtools import Fat
from firmware_configs.flash.partitions import Partition, fat_partitions
from wire.crashpoints import reach
from wire.errors import ConfigError

__all__ = ["FatCard", "Image", "boot_partition", "carry_out", "copy_sparse"]

BLOCK = 1 << 20


class FatCard:
    """The reading side of a card whose boot partition is FAT, without mounting it."""

    path: Path
    partition: Partition
    _fat: Fat

    @property
    def name(self) -> str:
        """For messages."""
        return str(self.path)

    def names(self, folder: str = "") -> list[str]:
        """What a folder holds, sorted; nothing if there is no such folder."""
        return self._fat.names(folder)

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None if there is none."""
        return self._fat.read(path)

    def link(self, path: str) -> str | None:
        """FAT has no links."""
        return None


class Image(FatCard):
    """The boot partition of the image at `path`; written to `out` if that is given, and `path` stays as it is."""

    def __init__(self, path: Path, *, out: Path | None = None) -> None:
        self.path, self.out = path, out or path
        with path.open("rb") as disk:
            self.partition = boot_partition(fat_partitions(disk, str(path)), path)
        self._fat = Fat(path, self.partition)

    def write(self, plan: Plan) -> None:
        """Carry out the plan in a copy, compare what it then holds, and put it in place."""
        beside = self.out.with_name(f".{self.out.name}.edgestill")
        try:
            copy_sparse(self.path, beside)
            reach("flash-image-copied")
            carry_out(plan, Fat(beside, self.partition))
            with beside.open("rb+") as copy:
                os.fsync(copy.fileno())
            reach("flash-image-written")
            beside.replace(self.out)
        finally:
            beside.unlink(missing_ok=True)
        handle = os.open(self.out.parent, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
        reach("flash-image-put")
        self._fat = Fat(self.out, self.partition)


def boot_partition(found: list[Partition], what: Path) -> Partition:
    """The first FAT partition: boards boot from no other."""
    if not found:
        raise ConfigError(f"{what}: has no FAT partition to put a kit on; is it the image of a Raspberry Pi?")
    return found[0]


def carry_out(plan: Plan, fat: Fat) -> None:
    """Put everything of the plan on a file system that nobody boots from meanwhile, and compare."""
    wanted = {f"{plan.folder}/{name}": file.data for name, file in plan.files.items()}
    wanted |= {f"{BEFORE}/{name}": data for name, data in plan.before.items()}
    wanted |= {put.path: put.data for put in plan.puts}
    with tempfile.TemporaryDirectory(prefix="edgestill-") as folder:  # only its owner can look into it
        for path, data in wanted.items():
            place = Path(folder, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        for old in plan.old:
            fat.remove(old)
        fat.add(Path(folder))
    for path, data in wanted.items():
        if fat.read(path) != data:
            raise ConfigError(f"{fat.path}: {path} reads back differently from what was written; is the image damaged?")


def copy_sparse(source: Path, target: Path) -> None:
    """Copy a file without filling its holes."""
    with source.open("rb") as old, target.open("wb") as new:
        size = os.fstat(old.fileno()).st_size
        new.truncate(size)
        os.fchmod(new.fileno(), os.fstat(old.fileno()).st_mode & 0o7777)
        at = 0
        while (at := _seek(old.fileno(), at, os.SEEK_DATA, size)) < size:
            end = _seek(old.fileno(), at, os.SEEK_HOLE, size)
            while at < end:
                at += _copy_range(old.fileno(), new.fileno(), at, min(end - at, 64 * BLOCK))


def _seek(handle: int, at: int, whence: int, size: int) -> int:
    try:
        return os.lseek(handle, at, whence)
    except OSError:
        return size  # no more data, or no more holes, up to the end


def _copy_range(old: int, new: int, at: int, count: int) -> int:
    if hasattr(os, "copy_file_range"):
        try:
            if done := os.copy_file_range(old, new, count, at, at):
                return done
        except OSError:
            pass  # between file systems, or where the system has none
    done = os.pwrite(new, os.pread(old, min(count, BLOCK), at), at)
    if not done:
        raise ConfigError("the image became shorter while it was copied")
    return done
