"""Notices when a fleet has changed, for all open pages by one look a second.

SQLite counts the commits of other connections (`PRAGMA data_version`), and status.json has a time; so an idle fleet
costs two system calls a second, and a page that nobody looks at nothing.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

from aggregator.storage.journal import Journal
from core.errors import EdgestillError

__all__ = ["Changes"]

LOOK_S = 1.0
ALIVE_S = 10.0  # without a change: durations on the page have grown all the same
MOST = 50  # open pages


class Changes:
    """The changes of one state folder."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._open = 0
        self._over = False

    def end(self) -> None:
        """End all that follow, within a look: the server ends."""
        self._over = True

    async def follow(self) -> AsyncIterator[int]:
        """A growing number at every change, 0 as a sign of life; ends at once if too many follow already."""
        if self._open >= MOST:
            return
        self._open += 1
        try:
            with closing(self._journal()) as journal:
                before, number, quiet = self._look(journal), 0, 0.0
                while not self._over:
                    await asyncio.sleep(LOOK_S)
                    quiet += LOOK_S
                    seen = self._look(journal)
                    if seen != before or quiet >= ALIVE_S:
                        number, quiet, before = number + 1, 0.0, seen
                        yield number
                    else:
                        yield 0
        finally:
            self._open -= 1

    def _journal(self) -> Journal:
        return Journal(self._state / "journal.db", read_only=True)

    def _look(self, journal: Journal) -> tuple[int, str]:
        try:
            version = int(journal.db.execute("PRAGMA data_version").fetchone()[0])
        except (sqlite3.Error, EdgestillError):
            version = -1
        try:
            text = (self._state / "status.json").read_text()
        except OSError:
            text = ""
        return version, text.partition('"connected"')[2] + _times(self._state)  # what stands before is the time


def _times(state: Path) -> str:
    """When the files of telemetry and logs were written."""
    found = []
    for name in ("telemetry.json", "logs"):
        try:
            found.append(str((state / name).stat().st_mtime_ns))
        except OSError:
            found.append("")
    return " ".join(found)
