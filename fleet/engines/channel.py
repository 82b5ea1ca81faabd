"""Frames between a simulation and its worker processes, over a pair of pipes. Never pickle.

    4 bytes  little-endian length h of the head
    h        head: MessagePack array [kind, facts, sizes]
    rest     one blob per size, as it is: a signed update, a published model

A pipe that holds a megabyte lets a worker hand over an update and go on with the next device at once.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

__all__ = ["Channel", "Frame", "pipes"]

PIPE_BYTES = 2**20
_LENGTH = struct.Struct("<I")
_encoder, _decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(tuple[str, dict[str, Any], list[int]])
Blob = bytes | bytearray | memoryview


class Frame(NamedTuple):
    """What was sent at once."""

    kind: str
    facts: dict[str, Any]
    blobs: list[bytearray]


class Channel:
    """One end: what is read from, what is written to."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing

    def send(self, kind: str, facts: Mapping[str, Any], blobs: Sequence[Blob] = ()) -> None:
        """Write a frame; `OSError` if nobody reads any more."""
        head = _encoder.encode((kind, facts, [len(blob) for blob in blobs]))
        _write(self._writing, [_LENGTH.pack(len(head)) + head, *blobs])

    def receive(self) -> Frame:
        """Wait for a frame; `EOFError` if the other end is gone."""
        head = _read(self._reading, _LENGTH.unpack(_read(self._reading, _LENGTH.size))[0])
        kind, facts, sizes = _decoder.decode(head)
        return Frame(kind, facts, [_read(self._reading, size) for size in sizes])

    def close(self) -> None:
        """Close both; more than once is fine."""
        for fd in (self._reading, self._writing):
            if fd >= 0:
                os.close(fd)
        self._reading = self._writing = -1


def pipes() -> tuple[Channel, Channel]:
    """Two ends that are connected."""
    (down_out, down_in), (up_out, up_in) = os.pipe(), os.pipe()
    for fd in (down_in, up_in):
        # where the system has no such call, or the user's pipes hold too much together already, these are smaller
        with suppress(AttributeError, OSError):
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return Channel(up_out, down_in), Channel(down_out, up_in)


def _write(fd: int, pieces: Sequence[Blob]) -> None:
    for piece in pieces:
        view = memoryview(piece)
        while len(view):
            view = view[os.write(fd, view) :]


def _read(fd: int, size: int) -> bytearray:
    data = bytearray(size)
    view, got = memoryview(data), 0
    while got < size:
        count = os.readv(fd, [view[got:]])
        if not count:
            raise EOFError("the other end of the pipe is closed")
        got += count
    return data
