"""A disk image: its partition for kits is written in a copy, which then replaces the image by one rename.

For a Jetson it is the root file system, ext4; for a Pi the FAT boot partition. So the image is replaced atomically, at
the cost of temporary space for the copy; sparse images stay sparse, and file systems that share blocks (Btrfs, XFS)
copy nothing.

An image with a kit contains the device's keys: only its owner can read it (0600), from the copy's first byte on,
whatever the mode of the original. If `path` or `out` is a symbolic link, its target is read and replaced.
"""

from __future__ import annotations

import fcntl
import glob
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from core.crashpoints import reach
from core.errors import ConfigError
from core.files import named_file, open_regular, sync
from firmware_configs.flash.cards.card import BEFORE, Plan, Put, WheelPlan
from firmware_configs.flash.cards.ext import Ext, has_debugfs
from firmware_configs.flash.cards.families import RELEASE
from firmware_configs.flash.cards.mtools import Fat
from firmware_configs.flash.cards.partitions import Partition, ext_partitions, fat_partitions

__all__ = ["FatCard", "Image", "boot_partition", "carry_out", "copy_sparse"]

BLOCK = 1 << 20
SUFFIX = ".edgestill"  # suffix of the copy in progress


class FatCard:
    """The read operations of a card whose file system is accessed without mounting."""

    path: Path
    partition: Partition
    _fat: Fat | Ext

    @property
    def name(self) -> str:
        """For messages."""
        return str(self.path)

    def names(self, folder: str = "") -> list[str]:
        """The entries of a folder, sorted; empty if there is no such folder."""
        return self._fat.names(folder)

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None if there is none."""
        return self._fat.read(path)

    def link(self, path: str) -> str | None:
        """The target of a link; None if there is none."""
        return self._fat.link(path)

    def free(self) -> int:
        """Bytes that are free."""
        return self._fat.free()

    def root_free(self) -> int | None:
        """Bytes that are free on the root file system; None: it is not written."""
        return None

    def digest(self, path: str) -> str | None:
        """SHA-256 of a large file, in hex; None if there is none."""
        return self._fat.digest(path)


class Image(FatCard):
    """The image at `path`; written to `out` if given, and `path` is then not changed."""

    def __init__(self, path: Path, *, out: Path | None = None) -> None:
        self.path = path = named_file(path)
        self.out = path if out is None else named_file(out)
        root = _jetson_root(path)
        self._kind: type[Fat] | type[Ext] = Fat if root is None else Ext
        if root is None:
            with path.open("rb") as disk:
                root = boot_partition(fat_partitions(disk, str(path)), path)
        self.partition = root
        self._fat = self._kind(path, self.partition)

    def root_free(self) -> int | None:
        """Bytes that are free on the ext4 file system of a Pi's image; None if there is none."""
        root = _pi_root(self.path) if self._kind is Fat else None
        return None if root is None else Ext(self.path, root).free()

    def write(self, plan: Plan) -> None:
        """Execute the plan in a copy, verify it, and rename it into place."""
        _remove_left(self.out)
        # an unpredictable name and O_EXCL: not a file planted by another user
        handle, name = tempfile.mkstemp(dir=self.out.parent, prefix=f".{self.out.name}.", suffix=SUFFIX)
        beside = Path(name)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)  # it is in use
            _same_owner(handle, self.out)
            copy_sparse(self.path, beside)
            reach("flash-image-copied")
            root = _pi_root(beside) if plan.wheels is not None and plan.wheels.root else None
            carry_out(plan, self._kind(beside, self.partition), None if root is None else Ext(beside, root))
            with beside.open("rb+") as written:
                os.fsync(written.fileno())
            reach("flash-image-written")
            beside.replace(self.out)
        finally:
            beside.unlink(missing_ok=True)
            os.close(handle)
        sync(self.out.parent)
        reach("flash-image-put")
        self._fat = self._kind(self.out, self.partition)


def _jetson_root(path: Path) -> Partition | None:
    """The partition with the root file system of a JetPack; None if there is none, or the tools are missing."""
    with path.open("rb") as disk:
        found = ext_partitions(disk, str(path)) if has_debugfs() else []
    return next((part for part in found if Ext(path, part).read(RELEASE) is not None), None)


def _pi_root(path: Path) -> Partition | None:
    """The partition with the root file system of a Pi; None if there is none, or the tools are missing."""
    with path.open("rb") as disk:
        found = ext_partitions(disk, str(path)) if has_debugfs() else []
    return next((part for part in found if "etc" in Ext(path, part).names()), None)


def boot_partition(found: list[Partition], what: Path) -> Partition:
    """The first FAT partition: boards boot from that one."""
    if not found:
        raise ConfigError(f"{what}: has no FAT partition to put a kit on; is it the image of a Raspberry Pi?")
    return found[0]


def carry_out(plan: Plan, fat: Fat | Ext, root: Ext | None = None) -> None:
    """Write the whole plan to a file system that is not in use, and verify; `root` is where its wheels go, if given."""
    wanted = [Put(f"{plan.folder}/{name}", file.data, file.mode) for name, file in plan.files.items()]
    wanted += [Put(f"{BEFORE}/{name}", data) for name, data in plan.before.items()]
    wanted += plan.puts
    with tempfile.TemporaryDirectory(prefix="edgestill-") as folder:  # only its owner can read it
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
        if plan.wheels is not None:
            _put_wheels(plan.wheels, root or fat)
        fat.add(Path(folder))
    for put in wanted:
        if (fat.link(put.path) != put.link) if put.link is not None else (fat.read(put.path) != put.data):
            raise ConfigError(f"{fat.path}: {put.path} reads back differently from what was written; is it damaged?")


def _put_wheels(plan: WheelPlan, target: Fat | Ext) -> None:
    """Leave exactly the plan's wheels in their folder; those that are there stay."""
    there = target.files(plan.folder)
    for name in set(there) - set(plan.wheels):
        target.remove(f"{plan.folder}/{name}")
    missing = {
        name: wheel
        for name, wheel in plan.wheels.items()
        if name not in there or target.digest(f"{plan.folder}/{name}") != wheel.sha256
    }
    target.put(plan.folder, {name: wheel.path for name, wheel in missing.items()})
    for name, wheel in missing.items():
        if target.digest(f"{plan.folder}/{name}") != wheel.sha256:
            raise ConfigError(f"{target.path}: {name} reads back differently from what was written; is it damaged?")


def _remove_left(out: Path) -> None:
    """Remove copies left by killed runs: they contain keys."""
    for path in out.parent.glob(f".{glob.escape(out.name)}.*{SUFFIX}"):
        with suppress(OSError):  # a link, another user's file, or in use
            handle = open_regular(path, follow=False)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.geteuid() in (0, os.fstat(handle).st_uid):
                    path.unlink()
            finally:
                os.close(handle)


def _same_owner(handle: int, former: Path) -> None:
    """Give the copy the owner of the image; root may write images of other users."""
    with suppress(FileNotFoundError, PermissionError):
        status = former.stat()
        os.fchown(handle, status.st_uid, status.st_gid)


def copy_sparse(source: Path, target: Path) -> None:
    """Copy a file and keep it sparse; a new file is readable only by its owner."""
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with source.open("rb") as old, os.fdopen(handle, "wb") as new:
        size = os.fstat(old.fileno()).st_size
        new.truncate(size)
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
            pass  # across file systems, or unsupported
    done = os.pwrite(new, os.pread(old, min(count, BLOCK), at), at)
    if not done:
        raise ConfigError("the image became shorter while it was copied")
    return done
