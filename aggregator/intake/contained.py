"""What a device's message may do when it goes wrong: be refused, in one line of the log, and nothing else.

Whatever is raised while one message is handled is that message's fault, be it our own `EdgestillError` or an exception
of a library that met bytes which nobody has thought of. The exception are errors of our own disk (`OURS`): they are not
the device's, nothing was answered, and the service tries again.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable

from core.errors import StorageError

__all__ = ["OURS", "Complaints", "describe"]

#: Raised by the aggregator's own disk and journal.
OURS = (OSError, sqlite3.Error, StorageError)
WINDOW_S = 60.0
REASONS = 5  # lines about one device in a window
DEVICES = 10_000  # that are remembered
LONGEST = 300  # characters of a reason
_VARYING = re.compile(r"'(?:[^'\\]|\\.)*'|\d+")


def describe(error: BaseException) -> str:
    """An exception in one printable line.

    >>> describe(ValueError("two\\nlines"))
    'ValueError: two lines'
    """
    text = " ".join(str(error).split())[:LONGEST]
    shown = "".join(c if c.isprintable() else "?" for c in text)
    return f"{type(error).__name__}: {shown}" if shown else type(error).__name__


class Complaints:
    """Which complaints are worth a line: of a device, each reason once a minute, and few reasons a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: dict[str, tuple[float, set[str]]] = {}

    def new(self, device: str, reason: str) -> bool:
        """Whether to log it. Reasons that differ in numbers and names alone are the same."""
        now = self._clock()
        begun, told = self._told.get(device, (now, set()))
        if now - begun >= WINDOW_S:
            begun, told = now, set()
        if len(self._told) >= DEVICES and device not in self._told:
            self._told.clear()
        self._told[device] = begun, told
        kind = _VARYING.sub("_", reason)
        if kind in told or len(told) >= REASONS:
            return False
        told.add(kind)
        return True
