"""Memory that two processes share, for what is large: a pipe would copy it twice, and wake both for every piece.

One process puts a blob into a slot that is free, and tells the other its number; the other reads it, and frees it. Who
finds no free slot, or none that is large enough, uses the pipe. Pages that were never used take no memory.

The memory is an anonymous `mmap`. `multiprocessing.shared_memory` gives it a name, which forked processes do not need:
a file in /dev/shm, which Docker bounds to 64 MB (a worker that writes beyond dies of SIGBUS), and one more process, of
8 MB, to remove what a killed one has left there.
"""

from __future__ import annotations

import mmap

__all__ = ["Slots"]

COUNT = 4  # or as many as fit
ROOM = 64 * 2**20  # bytes of all slots: what is larger takes the pipe
LEAST = 2**16  # bytes of a blob that is worth a slot
_FREE, _USED = 0, 1


class Slots:
    """Slots of `size` bytes each, shared with the processes that are forked from now on. One writer, one reader.

    The memory goes with the last process that has this object.
    """

    def __init__(self, size: int) -> None:
        page = mmap.PAGESIZE
        self._size = -(-size // page) * page
        self._count = min(COUNT, ROOM // max(self._size, page))
        # first a byte for each: whether it is in use
        self._view = memoryview(mmap.mmap(-1, page + self._count * self._size))
        self._first = page

    def put(self, blob: bytes | bytearray | memoryview) -> int | None:
        """The number of the slot that now holds `blob`; None: send it in another way."""
        if not LEAST <= len(blob) <= self._size:
            return None
        for number in range(self._count):
            if self._view[number] == _FREE:
                start = self._first + number * self._size
                self._view[start : start + len(blob)] = blob
                self._view[number] = _USED
                return number
        return None

    def get(self, number: int, size: int) -> memoryview:
        """The blob of `size` bytes in a slot, not copied: it is good until the slot is freed."""
        start = self._first + number * self._size
        return self._view[start : start + size]

    def free(self, number: int) -> None:
        """The slot may be used again."""
        self._view[number] = _FREE
