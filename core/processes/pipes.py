"""Bytes through pipes between processes: complete messages, with optional deadlines; lines of JSON."""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

__all__ = ["claim_stdout", "json_lines", "read_all", "read_exactly", "write_all", "write_json"]

PIECE = 2**20


def read_exactly(fd: int, size: int, *, until: float | None = None) -> bytearray:
    """`size` bytes; `EOFError` if the other end is closed before, `TimeoutError` after `until` (monotonic)."""
    data = bytearray(size)
    view, got = memoryview(data), 0
    while got < size:
        _wait(fd, until)
        count = os.readv(fd, [view[got:]])
        if not count:
            raise EOFError("the other end of the pipe is closed")
        got += count
    return data


def read_all(fd: int, *, most: int, until: float) -> bytes | None:
    """All bytes until the other end is closed; None if that takes too long, or exceeds `most` bytes."""
    pieces: list[bytes] = []
    size = 0
    while size <= most:
        try:
            _wait(fd, until)
        except TimeoutError:
            return None
        piece = os.read(fd, PIECE)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
    return None


def _wait(fd: int, until: float | None) -> None:
    if until is None:
        return
    ready, _, _ = select.select([fd], [], [], max(0.0, until - time.monotonic()))
    if not ready:
        raise TimeoutError("it takes too long")


def write_all(fd: int, pieces: Iterable[bytes | bytearray | memoryview]) -> None:
    """Write all pieces completely; `OSError` if the reader is gone."""
    for piece in pieces:
        view = memoryview(piece)
        while len(view):
            view = view[os.write(fd, view) :]


def write_json(file: BinaryIO, message: dict[str, Any]) -> None:
    """Write one line and flush."""
    file.write(json.dumps(message).encode() + b"\n")
    file.flush()


def json_lines(file: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Every line with a JSON object: a library may print others, and a writer that dies leaves a partial line."""
    for line in file:
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if isinstance(message, dict):
            yield message


def claim_stdout() -> BinaryIO:
    """The original stdout, reserved for answers: output of libraries goes to stderr from here on."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers
