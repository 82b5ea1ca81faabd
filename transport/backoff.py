"""Delay before the next connection attempt."""

from __future__ import annotations

import random

__all__ = ["LAST", "Backoff"]

FIRST, LAST = 0.2, 10.0  # seconds
BRIEF = 1.0  # seconds; a shorter connection is suspicious
BRIEF_LAST = 1.0
RESTLESS = 4  # brief connections in a row


class Backoff:
    """Exponential backoff with jitter, so that a fleet does not reconnect in lockstep.

    After a stable connection the delay restarts at 0.2 s. After a connection that broke at once (a bad link, or two
    clients with the same id that disconnect each other) it keeps doubling, up to 1 s.
    """

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()
        self._delay = 0.0
        self._brief = 0

    @property
    def restless(self) -> bool:
        """Whether connections are repeatedly made and lost."""
        return self._brief >= RESTLESS

    def wait(self, stood: float | None) -> float:
        """Seconds to wait after a connection of the given duration; None: after a failed attempt."""
        if stood is not None and stood >= BRIEF:
            self._delay = 0.0
        self._brief = self._brief + 1 if stood is not None and stood < BRIEF else 0
        self._delay = min(LAST if stood is None else BRIEF_LAST, max(FIRST, 2 * self._delay))
        return self._delay * self._rng.uniform(0.5, 1.0)
