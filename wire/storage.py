"""Storage of a transfer's bytes, owned by the caller. Chunks are read and written in place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

__all__ = ["MemoryStorage", "Source", "Storage", "blocks"]

BLOCK = 2**20


class Source(Protocol):
    """Bytes to send."""

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset` on; fewer if the content ends there."""
        ...


class Storage(Source, Protocol):
    """Bytes being received, in any order."""

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Write `data` at `offset`; gaps between writes are undefined."""
        ...


class MemoryStorage:
    """The caller's own bytes or bytearray; a bytearray grows as chunks arrive."""

    def __init__(self, data: bytes | bytearray) -> None:
        self.data = data

    def read(self, offset: int, size: int) -> bytes:
        return bytes(memoryview(self.data)[offset : offset + size])

    def write(self, offset: int, data: bytes | memoryview) -> None:
        if not isinstance(self.data, bytearray):
            raise TypeError("cannot write into bytes; give a bytearray")
        end = offset + len(data)
        if end > len(self.data):
            self.data.extend(bytes(end - len(self.data)))
        self.data[offset:end] = data


def blocks(source: Source, size: int) -> Iterator[bytes | memoryview]:
    """The first `size` bytes in pieces, for hashing without loading all of them; bytes in memory are not copied."""
    for offset in range(0, size, BLOCK):
        end = min(size, offset + BLOCK)
        if isinstance(source, MemoryStorage):
            yield memoryview(source.data)[offset:end]
        else:
            yield source.read(offset, end - offset)
