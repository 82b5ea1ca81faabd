"""What a message or a file finds wrong, in one line each: with them, or with us. The agent goes on."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable
from pathlib import Path

__all__ = ["Nonsense", "tell_fault"]

log = logging.getLogger("edgestill.agent")
LINES, EVERY_S = 20, 60.0


class Nonsense:
    """Warnings about messages that make no sense: so many a minute, for a broker may send them without end."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._since = clock, clock()
        self._said = self._held = 0

    def warn(self, text: str) -> None:
        """Log it, or count it; the count is told when the next minute has begun."""
        if self._clock() - self._since >= EVERY_S:
            if self._held:
                log.warning("%d more messages made no sense", self._held)
            self._since, self._said, self._held = self._clock(), 0, 0
        if self._said < LINES:
            self._said += 1
            log.warning("%s", text)
        else:
            self._held += 1


def tell_fault(what: str, error: Exception) -> None:
    """Log what was passed over, why, and where in the code; the traceback comes with `level = "debug"`."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(last.filename).name}:{last.lineno}"
    log.error("%s: %s: %s (%s); passed over, please report it", what, type(error).__name__, error, place)
    log.debug("%s", what, exc_info=error)
