"""Buffers what devices report of themselves, and counts of unusable messages, until they are written to the journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from aggregator.storage.journal import Journal

__all__ = ["DeviceNotes"]

NOTES_S = 1.0  # between two writes


class DeviceNotes:
    """Notes that are not yet written; `bad` counts a device's unusable messages other than updates."""

    def __init__(self, journal: Journal, clock: Callable[[], float]) -> None:
        self._journal, self._clock = journal, clock
        self._notes: dict[str, dict[str, Any]] = {}
        self.bad: Counter[str] = Counter()
        self._kept = 0.0

    def note(self, device: str, *, live: bool = True, **facts: Any) -> None:
        """Set columns of the device's row. A retained message is not `live`: the device may have sent it long ago."""
        note = self._notes.setdefault(device, {})
        note.update(facts)
        if live:
            note["seen"] = self._clock()

    def keep(self, *, at_once: bool = False) -> None:
        """Write the notes, in batches unless `at_once`: a lost note is repeated by the retained messages."""
        if not (self._notes or self.bad) or (self._clock() - self._kept < NOTES_S and not at_once):
            return
        with self._journal.transaction():
            for device, facts in self._notes.items():
                if facts:
                    self._journal.note_device(device, **facts)
            for device, count in self.bad.items():
                self._journal.count(device, "refused", count)
        self._notes.clear()
        self.bad.clear()
        self._kept = self._clock()
