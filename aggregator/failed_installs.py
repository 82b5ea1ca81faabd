"""Boards whose installer has failed, and why: what `edgestill device list` shows as `installing: …`.

Such a board has no agent; a script of its kit sends an `Installing` each time the installer has failed. Its number only
increases, so a report that was recorded and is sent again changes nothing. A report about a device that is online is
ignored, and what is stored of one ends when its agent comes online; the number stays. Rows of `meta`:

    installing:DEVICE    {"number": 1794833912, "reason": "…", "time": 1794833912.5}      time: when it was heard
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from aggregator.storage.journal import Journal
from wire.messages import Installing

__all__ = ["FailedInstalls", "failed_installs"]

KEEP_S = 1.0  # between two writes
PREFIX = "installing:"


def failed_installs(journal: Journal) -> dict[str, str]:
    """Why the installation has failed, by device; only of those whose agent was not online since."""
    return {device: row["reason"] for device, row in _rows(journal).items() if row["reason"]}


def _rows(journal: Journal) -> dict[str, dict[str, Any]]:
    query = "SELECT substr(key, ?), value FROM meta WHERE key LIKE ? ORDER BY key"
    rows = journal.db.execute(query, (len(PREFIX) + 1, f"{PREFIX}%")).fetchall()
    return {device: json.loads(value) for device, value in rows}


class FailedInstalls:
    """Reports in; what they say goes to the journal together, not each on its own."""

    def __init__(self, journal: Journal, clock: Callable[[], float]) -> None:
        self._journal, self._clock = journal, clock
        self._rows = _rows(journal)
        self._changed: set[str] = set()
        self._kept = 0.0

    def heard(self, device: str, report: Installing, *, online: bool) -> bool:
        """Whether the report is new, and about a device that is not online."""
        before = self._rows.get(device)
        if online or (before is not None and report.number <= before["number"]):
            return False
        self._rows[device] = {"number": report.number, "reason": report.reason, "time": self._clock()}
        self._changed.add(device)
        return True

    def online(self, device: str) -> None:
        """The agent of the device is online, so it is installed."""
        row = self._rows.get(device)
        if row is not None and row["reason"]:
            self._rows[device] = {**row, "reason": ""}
            self._changed.add(device)

    def keep(self, *, at_once: bool = False) -> None:
        """Write what has changed."""
        if not self._changed or (self._clock() - self._kept < KEEP_S and not at_once):
            return
        with self._journal.transaction():
            for device in sorted(self._changed):
                self._journal.put(f"{PREFIX}{device}", json.dumps(self._rows[device]))
        self._changed.clear()
        self._kept = self._clock()
