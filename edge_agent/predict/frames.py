"""Frames between the agent and the process that predicts for it, and their bounds. Imports no NumPy."""

from __future__ import annotations

import struct

__all__ = ["LENGTH", "MAX_ANSWER", "MAX_INPUTS", "MAX_REQUEST", "frame"]

LENGTH = struct.Struct(">I")
MAX_REQUEST = MAX_ANSWER = 256 * 1024  # the generated broker configuration allows packets of 300,000 bytes
MAX_INPUTS = 256  # of one request


def frame(data: bytes) -> bytes:
    """Length and bytes.

    >>> frame(b"ab")
    b'\\x00\\x00\\x00\\x02ab'
    """
    return LENGTH.pack(len(data)) + data
