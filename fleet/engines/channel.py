"""Frames between a simulation and its worker processes, over a pair of pipes and shared memory. Never pickle.

    head    MessagePack array [kind, facts, [[size, slot], …]]
    then    the blobs without a slot, as they are, in pieces: an update, a published model

Head and pieces are messages of `multiprocessing.connection`: `send_bytes`, which puts the length in front, and never
`send`, which pickles. Large blobs are put into shared memory (`slots.py`) while there is room. A pipe that holds a
megabyte lets a worker hand over an update that found none, and go on with the next device at once.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from typing import Any, NamedTuple

import msgspec

from fleet.engines.slots import Slots

__all__ = ["Channel", "Frame", "connected"]

PIPE_BYTES = 2**20
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

    def __init__(self, reading: tuple[Connection, Slots], writing: tuple[Connection, Slots]) -> None:
        (self._reading, self._there), (self._writing, self._here) = reading, writing

    def send(self, kind: str, facts: Mapping[str, Any], blobs: Sequence[Blob] = ()) -> None:
        """Write a frame; `OSError` if nobody reads any more."""
        slots = [self._here.put(blob) for blob in blobs]
        where = [(len(blob), slot) for blob, slot in zip(blobs, slots, strict=True)]
        self._writing.send_bytes(_encoder.encode((kind, facts, where)))
        for blob, slot in zip(blobs, slots, strict=True):
            for piece in _pieces(blob) if slot is None else ():
                self._writing.send_bytes(piece)

    def receive(self) -> Frame:
        """Wait for a frame; `EOFError` or `OSError` if the other end is gone."""
        kind, facts, where = _decoder.decode(self._reading.recv_bytes())
        blobs = [self._read(size) if slot is None else self._there.get(slot, size) for size, slot in where]
        return Frame(kind, facts, blobs, lambda: self._free([slot for _, slot in where if slot is not None]))

    def _read(self, size: int) -> bytearray:
        data, got = bytearray(size), 0
        while got < size:
            got += self._reading.recv_bytes_into(data, got)
        return data

    def _free(self, slots: Sequence[int]) -> None:
        for slot in slots:
            self._there.free(slot)

    def close(self) -> None:
        """Close both; more than once is fine."""
        self._reading.close()
        self._writing.close()


def connected(largest: int) -> tuple[Channel, Channel]:
    """Two ends, the second for a process that is forked from this one; `largest` is the size of usual large blobs."""
    (down_out, down_in), (up_out, up_in) = Pipe(duplex=False), Pipe(duplex=False)
    down, up = Slots(largest), Slots(largest)
    for end in (down_in, up_in):
        # where the system has no such call, or the user's pipes hold too much together already, these are smaller
        with suppress(AttributeError, OSError):
            fcntl.fcntl(end.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return Channel((up_out, up), (down_in, down)), Channel((down_out, down), (up_in, up))


def _pieces(blob: Blob) -> Iterator[memoryview]:
    """A connection reads a message of many megabytes three times slower than as many of one."""
    view = memoryview(blob)
    return (view[start : start + PIPE_BYTES] for start in range(0, len(view), PIPE_BYTES))
