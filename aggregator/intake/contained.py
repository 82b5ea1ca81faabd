"""Containment: a message whose handling fails is refused with one log line, without further effect.

Any exception while handling a message is attributed to that message, whether our own `EdgestillError` or a library's
exception on unexpected bytes. Except for errors of our own disk (`OURS`): they are not the device's fault, nothing was
answered, and the service retries.
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
DEVICES = 10_000  # tracked at most
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
    """Rate limit of log lines: each reason once a minute per device, and few reasons a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged: dict[str, tuple[float, set[str]]] = {}

    def new(self, device: str, reason: str) -> bool:
        """Whether to log it. Reasons that differ only in numbers and names are the same."""
        now = self._clock()
        begun, logged = self._logged.get(device, (now, set()))
        if now - begun >= WINDOW_S:
            begun, logged = now, set()
        if len(self._logged) >= DEVICES and device not in self._logged:
            self._logged.clear()
        self._logged[device] = begun, logged
        kind = _VARYING.sub("_", reason)
        if kind in logged or len(logged) >= REASONS:
            return False
        logged.add(kind)
        return True
