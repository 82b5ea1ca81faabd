"""Runs the parts of a pass of the service; a part whose write fails changes nothing, and is retried."""

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
COMPLAIN_S = 60.0  # between two equal log lines about the disk


class Attempts:
    """Runs parts of a pass; after a failed write, `resync` rebuilds the state in memory from the journal."""

    def __init__(self, state: Path, resync: Callable[[], None]) -> None:
        self._state, self._resync = state, resync
        self._stale = False
        self._complaint = ("", 0.0)  # and when it was logged

    def mark_stale(self) -> None:
        """The state in memory may differ from the journal."""
        self._stale = True

    def run(self, parts: Iterable[Callable[[], None]]) -> bool:
        """Run all parts in order, even if one fails; returns whether all of their writes succeeded."""
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
