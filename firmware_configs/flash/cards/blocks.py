"""The FAT boot partition of a card in a reader, written block by block with a redo journal on this machine.

The partition is copied, the copy is changed, and the two are compared: changed blocks are written to a journal first
(mode 0600: it contains keys), then to the card. An interrupted run leaves a card with some blocks old and some new. The
next run that opens the card finds the matching journal (every block is old or new, with some of each) and writes the
rest; if all blocks are old, it is another card, or was not written yet.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from core.crashpoints import reach
from core.errors import ConfigError
from core.files import read_regular, write_atomic
from firmware_configs.flash.cards.card import Plan
from firmware_configs.flash.cards.image import FatCard, boot_partition, carry_out
from firmware_configs.flash.cards.mtools import Fat
from firmware_configs.flash.cards.partitions import Partition, fat_partitions

__all__ = ["BlockDevice", "journal_folder"]

BLOCK, PIECE = 4096, 1 << 20
MAX_JOURNAL = 1 << 30
ZEROS = bytes(PIECE)
BLKFLSBUF = 0x1261  # linux/fs.h: drop buffers, so that reads come from the card


class _Change(msgspec.Struct, array_like=True):
    offset: int
    old: bytes  # SHA-256
    new: bytes


def journal_folder() -> Path:
    """The folder of journals: the user's state folder."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "edgestill"


class BlockDevice(FatCard):
    """The card at `path`, opened exclusively; opening it finishes an interrupted run."""

    def __init__(self, path: Path, journals: Path, *, recover: bool = True) -> None:
        self.path, self._journals = path, journals
        try:
            known = sorted(journals.glob("*.redo")) if recover else []
            self.recovered = any(_recover(path, journal) for journal in known)
            with path.open("rb") as disk:
                self.partition = boot_partition(fat_partitions(disk, str(path)), path)
        except PermissionError:
            raise ConfigError(f"{path}: permission denied; run this with sudo") from None
        self._fat = Fat(path, self.partition)

    def write(self, plan: Plan) -> None:
        """Execute the plan in a copy of the partition, then write the changes to the card, and verify."""
        with tempfile.TemporaryDirectory(prefix="edgestill-") as folder:
            copy = Path(folder, "boot.fat")
            self._copy_to(copy)
            carry_out(plan, Fat(copy, Partition(0, 0, self.partition.size)))
            changes = list(self._differences(copy))
        self._journals.mkdir(parents=True, exist_ok=True, mode=0o700)
        journal = self._journals / f"{plan.device}.redo"
        write_atomic(journal, msgspec.msgpack.encode(changes), mode=0o600)
        reach("flash-journal")
        _apply(self.path, changes)
        journal.unlink()

    def _copy_to(self, copy: Path) -> None:
        with self.path.open("rb") as disk, copy.open("wb") as out:
            disk.seek(self.partition.offset)
            left = self.partition.size
            while left and (piece := disk.read(min(left, PIECE))):
                left -= len(piece)
                if piece != ZEROS[: len(piece)]:
                    out.write(piece)
                else:
                    out.seek(len(piece), os.SEEK_CUR)
            out.truncate(self.partition.size)

    def _differences(self, copy: Path) -> Iterator[_Change]:
        with self.path.open("rb") as disk, copy.open("rb") as wanted:
            offset = disk.seek(self.partition.offset)
            while new := wanted.read(PIECE):
                old = disk.read(len(new))
                for at in range(0, len(new), BLOCK) if old != new else ():
                    if old[at : at + BLOCK] != new[at : at + BLOCK]:
                        digest = hashlib.sha256(old[at : at + BLOCK]).digest()
                        yield _Change(offset + at, digest, new[at : at + BLOCK])
                offset += len(new)


def _recover(path: Path, journal: Path) -> bool:
    """Finish the run of this journal, if it was interrupted while writing to this card."""
    try:
        changes = msgspec.msgpack.decode(read_regular(journal, MAX_JOURNAL, follow=False), type=list[_Change])
    except (OSError, msgspec.MsgspecError) as error:
        why = getattr(error, "strerror", None) or "damaged"
        raise ConfigError(
            f"{journal}: {why}; left by an interrupted run: remove it, and flash that card again"
        ) from None
    with path.open("rb") as disk:
        states = set()
        for change in changes:
            disk.seek(change.offset)
            now = disk.read(len(change.new))
            old = hashlib.sha256(now).digest() == change.old
            states.add("old" if old else "new" if now == change.new else "other")
    if states == {"old", "new"}:
        _apply(path, changes)
    if states in ({"old", "new"}, {"new"}):
        journal.unlink()
    return states == {"old", "new"}


def _apply(path: Path, changes: list[_Change]) -> None:
    try:
        # O_EXCL: the kernel refuses if it is mounted
        handle = os.open(path, os.O_RDWR | os.O_EXCL)
    except OSError as error:
        advice = "unmount it" if error.errno == errno.EBUSY else "run this with sudo"
        raise ConfigError(f"{path}: {error.strerror}; {advice}") from None
    try:
        for change in changes:
            os.pwrite(handle, change.new, change.offset)
            reach("flash-block")
        os.fsync(handle)
        with suppress(OSError):  # not a block device, or not permitted
            fcntl.ioctl(handle, BLKFLSBUF)
        for change in changes:
            if os.pread(handle, len(change.new), change.offset) != change.new:
                raise ConfigError(f"{path}: reads back differently from what was written; try another card")
    finally:
        os.close(handle)
