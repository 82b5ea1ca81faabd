"""Frames between a simulation and its worker processes, over a pair of pipes and shared memory. Never pickle.

    4 bytes  little-endian length h of the head
    h        head: MessagePack array [kind, facts, [[size, slot], …]]
    rest     the blobs without a slot, as they are: an update, a published model

Large blobs are put into shared memory (`slots.py`) while there is room. A pipe that holds a megabyte lets a worker hand
over an update that found none, and go on with the next device at once.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from core.pipes import read_exactly, write_all
from fleet.engines.slots import Slots

__all__ = ["Channel", "Frame", "connected"]

PIPE_BYTES = 2**20
_LENGTH = struct.Struct("<I")
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[str, dict[str, Any], list[tuple[int, int | None]]])
Blob = bytes | bytearray | memoryview


class Frame(NamedTuple):
    """What was sent at once."""

    kind: str
    facts: dict[str, Any]
    blobs: Sequence[Blob]
    release: Callable[[], None] = lambda: None  # to be called when the blobs have been read: they are gone then


class Channel:
    """One end: what is read from, what is written to; a pipe and slots each way."""

    def __init__(self, reading: tuple[int, Slots], writing: tuple[int, Slots]) -> None:
        (self._reading, self._there), (self._writing, self._here) = reading, writing

    def send(self, kind: str, facts: Mapping[str, Any], blobs: Sequence[Blob] = ()) -> None:
        """Write a frame; `OSError` if nobody reads any more."""
        slots = [self._here.put(blob) for blob in blobs]
        head = _encoder.encode((kind, facts, [(len(blob), slot) for blob, slot in zip(blobs, slots, strict=True)]))
        rest = [blob for blob, slot in zip(blobs, slots, strict=True) if slot is None]
        write_all(self._writing, [_LENGTH.pack(len(head)) + head, *rest])

    def receive(self) -> Frame:
        """Wait for a frame; `EOFError` if the other end is gone."""
        head = read_exactly(self._reading, _LENGTH.unpack(read_exactly(self._reading, _LENGTH.size))[0])
        kind, facts, where = _decoder.decode(head)
        blobs = [
            read_exactly(self._reading, size) if slot is None else self._there.get(slot, size) for size, slot in where
        ]
        return Frame(kind, facts, blobs, lambda: self._free([slot for _, slot in where if slot is not None]))

    def _free(self, slots: Sequence[int]) -> None:
        for slot in slots:
            self._there.free(slot)

    def close(self) -> None:
        """Close both; more than once is fine."""
        for fd in (self._reading, self._writing):
            if fd >= 0:
                os.close(fd)
        self._reading = self._writing = -1


def connected(largest: int) -> tuple[Channel, Channel]:
    """Two ends, the second for a process that is forked from this one; `largest` is the size of usual large blobs."""
    (down_out, down_in), (up_out, up_in) = os.pipe(), os.pipe()
    down, up = Slots(largest), Slots(largest)
    for fd in (down_in, up_in):
        # where the system has no such call, or the user's pipes hold too much together already, these are smaller
        with suppress(AttributeError, OSError):
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return Channel((up_out, up), (down_in, down)), Channel((down_out, down), (up_in, up))
