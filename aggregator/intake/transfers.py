"""Incomplete uploads: a `Receiver` and a part file, or memory, per transfer, bounded in number and bytes.

A part file is not synced: after a power cut its chunks may be lost, and the device, which keeps its update until it is
accepted, sends them again. The state of a receiver is saved next to the part file periodically, so that after a restart
only the newest chunks of a large update must be resent. A complete part file becomes the blob without copying.

An update that would be complete before its state is first saved needs no part file: it is kept in memory, up to
`IN_MEMORY` bytes of all such updates, and is written once, as the blob.

The cost of an upload is proportional to its bytes: chunks have a minimum size, an answer lists few ranges, and a
receiver is saved less often the more it holds. If there is no room, stalled uploads are evicted.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from core.errors import DeviceError, TransferError
from wire.chunks import DEFAULT_CHUNK, MIN_CHUNK, Chunk, Content
from wire.ids import transfer_id
from wire.ranges import Ranges
from wire.storage import MemoryStorage
from wire.transfer import Receiver

__all__ = ["IN_MEMORY", "Finished", "PathStorage", "Uploads"]

ANSWER_EVERY = 2  # new chunks
ANSWER_RANGES = 64  # of one `Missing`; an agent has 6 chunks in flight, and further ranges follow later
SAVE_EVERY = 16  # new chunks, at first
SAVE_SHARE = 8  # later, when an eighth of the chunks is new
IN_MEMORY = 16 * 2**20
SMALL = SAVE_EVERY * DEFAULT_CHUNK  # bytes of an update that may be kept in memory
HALTED_S = 180.0  # without a new chunk; an agent retries every minute


class PathStorage:
    """A file that is opened for each access: a thousand concurrent transfers would need a thousand descriptors."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset` on."""
        file = os.open(self.path, os.O_RDONLY)
        try:
            return os.pread(file, size, offset)
        finally:
            os.close(file)

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Write `data` at `offset`."""
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            while len(data):
                written = os.pwrite(file, data, offset)
                data, offset = memoryview(data)[written:], offset + written
        finally:
            os.close(file)


@dataclass(frozen=True, slots=True)
class Finished:
    """A complete upload with the announced digest."""

    content: Content
    held: Path | bytearray


@dataclass(slots=True)
class _Part:
    receiver: Receiver
    path: Path
    progress: float  # time of the last new chunk
    data: bytearray | None = None  # instead of the part file
    on_disk: bool = True
    new: int = 0  # chunks since the start, or the restart
    unsaved: int = 0  # of these
    again: bool = False  # the digest was wrong once


class Uploads:
    """All unfinished transfers."""

    def __init__(
        self,
        folder: Path,
        *,
        max_size: int,
        per_device: int,
        max_bytes: int,
        min_chunk: int = MIN_CHUNK,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._clock = folder, clock
        self._max_size, self._per_device, self._max_bytes = max_size, per_device, max_bytes
        self._min_chunk = min_chunk
        self._parts: dict[str, dict[str, _Part]] = {}  # by device and transfer, oldest first
        self.size = 0  # bytes that all unfinished updates will have
        self.in_memory = 0  # of these
        self._restore()

    def use(self, *, max_size: int, per_device: int, max_bytes: int) -> None:
        """Other limits, for what begins from now on."""
        self._max_size, self._per_device, self._max_bytes = max_size, per_device, max_bytes

    def __len__(self) -> int:
        return sum(map(len, self._parts.values()))

    def progress(self) -> dict[str, tuple[int, int]]:
        """Bytes received and bytes in all of each device's newest transfer."""
        newest = ((device, next(reversed(parts.values()))) for device, parts in self._parts.items() if parts)
        return {device: _progress(part.receiver) for device, part in newest}

    def add(self, device: str, chunk: Chunk) -> Finished | Ranges | None:
        """Store a chunk: returns the complete update if this was the last one, else the missing ranges to report, if
        any.

        `DeviceError` is a refusal. While too many bytes are unfinished, a new transfer is silently ignored: its device
        retries.
        """
        transfer = transfer_id(chunk.content.digest)
        part = self._parts.get(device, {}).get(transfer) or self._start(device, transfer, chunk.content)
        if part is None:
            return None
        new = part.receiver.accept(chunk)
        part.new += new
        if part.receiver.complete:
            return self._finish(part)
        if new:
            part.progress = self._clock()
            part.unsaved += 1
            if part.unsaved >= max(SAVE_EVERY, part.receiver.held // SAVE_SHARE):
                self._save(part)
        return _missing(part) if not new or part.new % ANSWER_EVERY == 0 else None

    def has(self, device: str, transfer: str) -> bool:
        """Whether chunks of this transfer are held."""
        return transfer in self._parts.get(device, ())

    def missing(self) -> Iterator[tuple[str, str, Ranges]]:
        """Device, transfer and missing chunks of all unfinished uploads, to report after a reconnection."""
        for device, transfer, part in self._all():
            yield device, transfer, _missing(part)

    def drop(self, device: str, transfer: str) -> None:
        """Drop a transfer and its file, unless the file was adopted as a blob."""
        mine = self._parts.get(device, {})
        part = mine.pop(transfer, None)
        if part is None:
            return
        if not mine:
            del self._parts[device]
        self.size -= part.receiver.content.size
        if part.data is not None:
            self.in_memory -= len(part.data)
        if part.on_disk:
            with contextlib.suppress(OSError):  # removed at the next start
                part.path.unlink(missing_ok=True)
                _state_file(part.path).unlink(missing_ok=True)

    def drop_device(self, device: str) -> None:
        """Drop all transfers of a device."""
        for transfer in list(self._parts.get(device, ())):
            self.drop(device, transfer)

    def expire(self, seconds: float) -> int:
        """Drop transfers without progress for so long; returns their number."""
        old = [(d, t) for d, t, part in self._all() if self._clock() - part.progress > seconds]
        for device, transfer in old:
            self.drop(device, transfer)
        return len(old)

    def save(self) -> None:
        """Save the state of all transfers for the next start."""
        for _, _, part in self._all():
            self._save(part)

    def _all(self) -> list[tuple[str, str, _Part]]:
        return [(d, t, part) for d, mine in self._parts.items() for t, part in mine.items()]

    def _keep(self, device: str, transfer: str, part: _Part) -> None:
        self._parts.setdefault(device, {})[transfer] = part
        self.size += part.receiver.content.size

    def _start(self, device: str, transfer: str, content: Content) -> _Part | None:
        if content.size > self._max_size:
            raise DeviceError(f"update of {content.size} bytes, at most {self._max_size} are allowed")
        if content.count > 1 and content.chunk_size < self._min_chunk:
            raise DeviceError(
                f"update in chunks of {content.chunk_size} bytes, at least {self._min_chunk} are asked for"
            )
        if not self._make_room(content.size):
            return None
        mine = list(self._parts.get(device, ()))
        for old in mine[: max(0, len(mine) - self._per_device + 1)]:
            self.drop(device, old)  # superseded by a newer transfer of the device
        part = self._new_part(self._folder / f"{device}.{transfer}.part", content)
        self._keep(device, transfer, part)
        return part

    def _make_room(self, size: int) -> bool:
        """Whether there is room for `size` more bytes; stalled uploads are evicted, the oldest first."""
        if self.size + size <= self._max_bytes:
            return True
        halted = self._clock() - HALTED_S
        for _, device, transfer in sorted((p.progress, d, t) for d, t, p in self._all() if p.progress < halted):
            self.drop(device, transfer)
            if self.size + size <= self._max_bytes:
                return True
        return False

    def _new_part(self, path: Path, content: Content) -> _Part:
        if content.count > SAVE_EVERY or content.size > SMALL or self.in_memory + content.size > IN_MEMORY:
            return _Part(Receiver(content, PathStorage(path)), path, self._clock())
        data = bytearray(content.size)
        self.in_memory += content.size
        return _Part(Receiver(content, MemoryStorage(data)), path, self._clock(), data, on_disk=False)

    def _finish(self, part: _Part) -> Finished | Ranges:
        try:
            part.receiver.finish()
        except TransferError:
            if part.again:
                raise DeviceError("the whole update has another digest than its chunks say") from None
            part.again = True  # the disk may have lost a chunk; request all again, once
            return _missing(part)
        return Finished(part.receiver.content, part.path if part.data is None else part.data)

    def _save(self, part: _Part) -> None:
        part.on_disk, part.unsaved = True, 0
        if part.data is not None:
            part.path.write_bytes(part.data)
        beside = part.path.with_suffix(".saving")
        beside.write_bytes(part.receiver.save())
        os.replace(beside, _state_file(part.path))

    def _restore(self) -> None:
        for path in sorted(self._folder.glob("*.part")):
            device, transfer, _ = path.name.rsplit(".", 2)
            try:
                receiver = Receiver.restore(_state_file(path).read_bytes(), PathStorage(path))
                if receiver.complete:
                    raise TransferError("was finished but not accepted: its device sends the last chunk again")
                self._keep(device, transfer, _Part(receiver, path, self._clock()))
            except (OSError, TransferError):
                path.unlink()
        for path in self._folder.iterdir():
            if path.suffix != ".part" and not path.with_suffix(".part").exists():
                path.unlink()


def _missing(part: _Part) -> Ranges:
    return part.receiver.missing(limit=ANSWER_RANGES)


def _state_file(path: Path) -> Path:
    return path.with_suffix(".state")


def _progress(receiver: Receiver) -> tuple[int, int]:
    content = receiver.content
    return min(receiver.held * content.chunk_size, content.size), content.size
