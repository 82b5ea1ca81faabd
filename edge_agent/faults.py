"""One log line per malformed message or internal error; the agent keeps running."""

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
    """Rate-limited warnings about malformed messages: a broker may send any number of them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._since = clock, clock()
        self._said = self._held = 0

    def warn(self, text: str) -> None:
        """Log it, or count it; the count is logged at the start of the next minute."""
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
    """Log what was skipped, why, and the place in the code; with `level = "debug"` also the traceback."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(last.filename).name}:{last.lineno}"
    log.error("%s: %s: %s (%s); passed over, please report it", what, type(error).__name__, error, place)
    log.debug("%s", what, exc_info=error)
