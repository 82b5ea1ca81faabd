"""Shared memory for large blobs between two processes: a pipe copies twice and wakes both ends for every piece.

The writer puts a blob into a free slot and sends the slot's index; the reader reads and frees it. If no slot is free or
large enough, the blob goes through the pipe. Pages that were never written take no memory.

The memory is an anonymous `mmap`. `multiprocessing.shared_memory` would need a named file in /dev/shm, which Docker
limits to 64 MB (a worker that writes beyond it dies of SIGBUS), and one more process of 8 MB to clean up after killed
ones; forked processes need neither.
"""

from __future__ import annotations

import mmap

__all__ = ["Slots"]

COUNT = 4  # or as many as fit
ROOM = 64 * 2**20  # bytes of all slots; larger blobs go through the pipe
LEAST = 2**16  # minimum bytes of a blob that uses a slot
_FREE, _USED = 0, 1


class Slots:
    """Slots of `size` bytes each, shared with processes that are forked later. One writer, one reader.

    The memory is released when the last process with this object ends.
    """

    def __init__(self, size: int) -> None:
        page = mmap.PAGESIZE
        self._size = -(-size // page) * page
        self._count = min(COUNT, ROOM // max(self._size, page))
        # one leading byte per slot: whether it is in use
        self._view = memoryview(mmap.mmap(-1, page + self._count * self._size))
        self._first = page

    def put(self, blob: bytes | bytearray | memoryview) -> int | None:
        """Copy `blob` into a free slot and return its index; None if there is none."""
        if not LEAST <= len(blob) <= self._size:
            return None
        for slot in range(self._count):
            if self._view[slot] == _FREE:
                start = self._first + slot * self._size
                self._view[start : start + len(blob)] = blob
                self._view[slot] = _USED
                return slot
        return None

    def get(self, slot: int, size: int) -> memoryview:
        """A view of the `size` bytes in a slot, valid until the slot is freed."""
        start = self._first + slot * self._size
        return self._view[start : start + size]

    def free(self, slot: int) -> None:
        """Release the slot for reuse."""
        self._view[slot] = _FREE
