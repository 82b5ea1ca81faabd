"""A disk image: the partition in it that takes kits, written in a copy that then takes the image's place by one rename.

A Jetson's is its root file system, ext4; a Pi's is the FAT partition that it boots from. So an image is the old one or
the new one at every moment, whatever happens, at the cost of room for the copy while it is made; holes of a sparse
image stay holes, and file systems that share blocks (Btrfs, XFS) copy nothing.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from firmware_configs.flash.card import BEFORE, Plan, Put
from firmware_configs.flash.ext import Ext, has_debugfs
from firmware_configs.flash.families import RELEASE
from firmware_configs.flash.mtools import Fat
from firmware_configs.flash.partitions import Partition, ext_partitions, fat_partitions
from wire.crashpoints import reach
from wire.errors import ConfigError

__all__ = ["FatCard", "Image", "boot_partition", "carry_out", "copy_sparse"]

BLOCK = 1 << 20


class FatCard:
    """The reading side of a card whose file system is read without mounting it."""

    path: Path
    partition: Partition
    _fat: Fat | Ext

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
        """Where a link leads; None if there is none."""
        return self._fat.link(path)


class Image(FatCard):
    """The image at `path`; written to `out` if that is given, and `path` stays as it is."""

    def __init__(self, path: Path, *, out: Path | None = None) -> None:
        self.path, self.out = path, out or path
        root = _jetson_root(path)
        self._kind: type[Fat] | type[Ext] = Fat if root is None else Ext
        if root is None:
            with path.open("rb") as disk:
                root = boot_partition(fat_partitions(disk, str(path)), path)
        self.partition = root
        self._fat = self._kind(path, self.partition)

    def write(self, plan: Plan) -> None:
        """Carry out the plan in a copy, compare what it then holds, and put it in place."""
        beside = self.out.with_name(f".{self.out.name}.edgestill")
        try:
            copy_sparse(self.path, beside)
            reach("flash-image-copied")
            carry_out(plan, self._kind(beside, self.partition))
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
        self._fat = self._kind(self.out, self.partition)


def _jetson_root(path: Path) -> Partition | None:
    """The partition with the root file system of a JetPack; None if there is none, or nothing to look with."""
    with path.open("rb") as disk:
        found = ext_partitions(disk, str(path)) if has_debugfs() else []
    return next((part for part in found if Ext(path, part).read(RELEASE) is not None), None)


def boot_partition(found: list[Partition], what: Path) -> Partition:
    """The first FAT partition: boards boot from no other."""
    if not found:
        raise ConfigError(f"{what}: has no FAT partition to put a kit on; is it the image of a Raspberry Pi?")
    return found[0]


def carry_out(plan: Plan, fat: Fat | Ext) -> None:
    """Put everything of the plan on a file system that nobody boots from meanwhile, and compare."""
    wanted = [Put(f"{plan.folder}/{name}", file.data, file.mode) for name, file in plan.files.items()]
    wanted += [Put(f"{BEFORE}/{name}", data) for name, data in plan.before.items()]
    wanted += plan.puts
    with tempfile.TemporaryDirectory(prefix="edgestill-") as folder:  # only its owner can look into it
        for put in wanted:
            place = Path(folder, put.path)
            place.parent.mkdir(parents=True, exist_ok=True)
            if put.link is not None:
                place.symlink_to(put.link)
            else:
                place.write_bytes(put.data)
                place.chmod(put.mode)
        for old in plan.old:
            fat.remove(old)
        fat.add(Path(folder))
    for put in wanted:
        if (fat.link(put.path) != put.link) if put.link is not None else (fat.read(put.path) != put.data):
            raise ConfigError(f"{fat.path}: {put.path} reads back differently from what was written; is it damaged?")


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
