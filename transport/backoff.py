"""How long to wait before the next attempt to connect."""

from __future__ import annotations

import random

__all__ = ["Backoff"]

FIRST, LAST = 0.2, 10.0  # seconds
BRIEF = 1.0  # a connection that stood for less is suspicious
BRIEF_LAST = 1.0


class Backoff:
    """Doubling waits with jitter, so that a fleet does not come back in step.

    A connection that stood for a while starts over at 0.2 s. One that broke at once (a bad link, or two clients with
    one id that throw each other out) keeps doubling, up to 1 s.
    """

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()
        self._delay = 0.0

    def failed(self) -> float:
        """Seconds to wait after an attempt that led to no connection."""
        return self._next(LAST)

    def lost(self, stood: float) -> float:
        """Seconds to wait after a connection that stood for `stood` seconds."""
        if stood >= BRIEF:
            self._delay = 0.0
        return self._next(BRIEF_LAST)

    def _next(self, last: float) -> float:
        self._delay = min(last, max(FIRST, 2 * self._delay))
        return self._delay * self._rng.uniform(0.5, 1.0)
