"""The sending end of a transfer, for tests of the receiving one, and the bytes of a file as its storage.

Agents (`edge_agent/protocol/upload.py`) and the aggregator (`aggregator/downlink/publisher.py`) each have their own.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import BinaryIO

from wire.chunks import DEFAULT_CHUNK, Content, encode_chunk
from wire.ids import digest_of
from wire.ranges import expand
from wire.storage import MemoryStorage, Source, blocks

__all__ = ["FileStorage", "Sender", "content_of", "describe"]


def describe(source: Source, size: int, *, chunk_size: int = DEFAULT_CHUNK) -> Content:
    """The content of the first `size` bytes of `source`, hashed piece by piece."""
    return Content(digest=digest_of(blocks(source, size)), size=size, chunk_size=chunk_size)


def content_of(data: bytes, *, chunk_size: int = DEFAULT_CHUNK) -> Content:
    """The content that `data` is."""
    return describe(MemoryStorage(data), len(data), chunk_size=chunk_size)


class FileStorage:
    """A file opened for reading, or for reading and writing ("r+b", "w+b")."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def read(self, offset: int, size: int) -> bytes:
        self.file.seek(offset)
        return self.file.read(size)

    def write(self, offset: int, data: bytes | memoryview) -> None:
        self.file.seek(offset)
        self.file.write(data)


class Sender:
    """Which chunks to publish: a window of them, and again those that the receiver says it lacks."""

    def __init__(self, content: Content, source: Source, *, window: int = 20) -> None:
        self.content, self.in_flight = content, set[int]()
        self._source, self._window = source, window
        self._delivered: set[int] = set()
        self._waiting = list(range(content.count))  # a heap: lowest first

    def next(self) -> list[int]:
        """The chunks to publish now, in flight from here on; empty while the window is full or all are sent."""
        numbers = []
        while self._waiting and len(self.in_flight) < self._window:
            numbers.append(heapq.heappop(self._waiting))
            self.in_flight.add(numbers[-1])
        return numbers

    def chunk(self, n: int) -> bytes:
        """Chunk `n` as it travels."""
        return encode_chunk(self.content, n, self._source.read(*self.content.span(n)))

    def acked(self, n: int) -> None:
        """Chunk `n` has arrived; does nothing if it was not in flight."""
        if n in self.in_flight:
            self.in_flight.remove(n)
            self._delivered.add(n)

    def resend(self, ranges: Iterable[tuple[int, int]]) -> None:
        """The receiver lacks these: those not waiting or in flight are sent again."""
        for n in sorted(set(expand(ranges, self.content.count)) & self._delivered):
            self._delivered.remove(n)
            heapq.heappush(self._waiting, n)

    def resume(self, ranges: Iterable[tuple[int, int]]) -> None:
        """After a restart: the receiver lacks these, and no others are sent."""
        lacking = set(expand(ranges, self.content.count))
        self._delivered |= set(self._waiting) - lacking
        self._waiting = sorted(lacking)

    def reconnected(self) -> None:
        """Whatever was in flight may be lost: send it again."""
        for n in self.in_flight:
            heapq.heappush(self._waiting, n)
        self.in_flight.clear()
