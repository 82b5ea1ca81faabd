"""Frames between a simulation and its worker processes, over a pair of pipes and shared memory. No pickle.

    head    MessagePack array [kind, fields, [[size, slot], …]]
    then    the blobs without a slot (an update, a published model), raw, in pieces

Head and pieces are messages of `multiprocessing.connection`, written by `send_bytes`, which prefixes the length, never
by `send`, which pickles. Large blobs go through shared memory (`slots.py`) while a slot is free. A pipe with a buffer
of a megabyte lets a worker hand over an update without a slot and continue with the next device at once.
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
    """One message: its kind, its fields and its blobs."""

    kind: str
    facts: dict[str, Any]
    blobs: Sequence[Blob]
    release: Callable[[], None] = lambda: None  # frees the slots of the blobs; the blobs are invalid afterwards


class Channel:
    """One end: a pipe and slots to read from, a pipe and slots to write to."""

    def __init__(self, reading: tuple[Connection, Slots], writing: tuple[Connection, Slots]) -> None:
        (self._reading, self._there), (self._writing, self._here) = reading, writing

    def send(self, kind: str, fields: Mapping[str, Any], blobs: Sequence[Blob] = ()) -> None:
        """Write a frame; `OSError` if the other end is closed."""
        slots = [self._here.put(blob) for blob in blobs]
        layout = [(len(blob), slot) for blob, slot in zip(blobs, slots, strict=True)]
        self._writing.send_bytes(_encoder.encode((kind, fields, layout)))
        for blob, slot in zip(blobs, slots, strict=True):
            for piece in _pieces(blob) if slot is None else ():
                self._writing.send_bytes(piece)

    def receive(self) -> Frame:
        """Wait for a frame; `EOFError` or `OSError` if the other end is closed."""
        kind, fields, layout = _decoder.decode(self._reading.recv_bytes())
        blobs = [self._read(size) if slot is None else self._there.get(slot, size) for size, slot in layout]
        return Frame(kind, fields, blobs, lambda: self._free([slot for _, slot in layout if slot is not None]))

    def _read(self, size: int) -> bytearray:
        data, got = bytearray(size), 0
        while got < size:
            got += self._reading.recv_bytes_into(data, got)
        return data

    def _free(self, slots: Sequence[int]) -> None:
        for slot in slots:
            self._there.free(slot)

    def close(self) -> None:
        """Close both pipes; idempotent."""
        self._reading.close()
        self._writing.close()


def connected(largest: int) -> tuple[Channel, Channel]:
    """Two ends, the second for a forked process; `largest` is the expected size of large blobs."""
    (down_out, down_in), (up_out, up_in) = Pipe(duplex=False), Pipe(duplex=False)
    down, up = Slots(largest), Slots(largest)
    for end in (down_in, up_in):
        # without this call, or beyond the user's limit for all pipes, the buffers stay smaller
        with suppress(AttributeError, OSError):
            fcntl.fcntl(end.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return Channel((up_out, up), (down_in, down)), Channel((down_out, down), (up_in, up))


def _pieces(blob: Blob) -> Iterator[memoryview]:
    """Split a blob: a connection reads one message of many megabytes three times slower than pieces of 1 MB."""
    view = memoryview(blob)
    return (view[start : start + PIPE_BYTES] for start in range(0, len(view), PIPE_BYTES))
