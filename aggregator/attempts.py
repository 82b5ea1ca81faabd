"""The parts of a pass of the service, each tried: what the disk refuses has not happened, and is tried again."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from aggregator.intake.contained import OURS
from aggregator.storage.state_check import RESTORE

__all__ = ["Attempts"]

log = logging.getLogger("edgestill.aggregator")
COMPLAIN_S = 60.0  # between two equal lines about the disk


class Attempts:
    """Runs parts of a pass; after a write that failed, `resync` brings memory to where the journal is."""

    def __init__(self, state: Path, resync: Callable[[], None]) -> None:
        self._state, self._resync = state, resync
        self._stale = False
        self._complaint = ("", 0.0)  # and when it was logged

    def mark_stale(self) -> None:
        """Memory may not be what the journal is."""
        self._stale = True

    def run(self, parts: Iterable[Callable[[], None]]) -> bool:
        """Do one part after the other; every one is tried. Whether the disk has let all of them."""
        failures = sum(not self._attempt(part) for part in parts)
        return failures == 0

    def _attempt(self, part: Callable[[], None]) -> bool:
        try:
            if self._stale:
                self._resync()
                self._stale = False
            part()
        except OURS as error:
            self._stale = True
            self._complain(error)
            return False
        return True

    def _complain(self, error: Exception) -> None:
        text, now = str(error), time.monotonic()
        if text != self._complaint[0] or now - self._complaint[1] > COMPLAIN_S:
            damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
            then = f"the journal is damaged: {RESTORE}" if damaged else "nothing is lost, it is tried again"
            log.error("state folder %s: %s; %s", self._state, text, then)
            self._complaint = text, now
