"""A cache of the files of a folder of samples, so that each is decoded once: its hash, or why it is unusable.

samples.json in the state folder: {"name": [size, mtime in ns, hash in hex, reason]}. A file that changes is read
again. If the cache is missing or damaged, all files are read again. The user's files are never moved, changed or
deleted.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import msgspec

from core.files import write_atomic
from edge_agent.samples.spec import LEDGER

__all__ = ["Ledger", "Note"]

SAVE_S = 5.0  # a helper that is killed for its time has this much to do again


class Note(msgspec.Struct, frozen=True, array_like=True):
    """One file; `reason` is empty if it is usable."""

    size: int
    mtime_ns: int
    digest: str
    reason: str = ""


class Ledger:
    """The notes of one folder of samples."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / LEDGER
        self._saved = time.monotonic()
        self._changed = False
        self._notes: dict[str, Note] = {}
        with suppress(OSError, ValueError, msgspec.MsgspecError):
            self._notes = msgspec.json.decode(self._path.read_bytes(), type=dict[str, Note])

    def get(self, name: str, size: int, mtime_ns: int) -> Note | None:
        """The note of a file, if it is still the same."""
        note = self._notes.get(name)
        return note if note is not None and (note.size, note.mtime_ns) == (size, mtime_ns) else None

    def put(self, name: str, note: Note) -> None:
        """Store the note of a file; written to disk every few seconds."""
        self._notes[name], self._changed = note, True
        if time.monotonic() - self._saved > SAVE_S:
            self.save()

    def reject(self, name: str, reason: str) -> None:
        """Mark a file as unusable."""
        note = self._notes.get(name)
        if note is not None:
            self.put(name, Note(note.size, note.mtime_ns, note.digest, reason))

    def keep_only(self, names: set[str]) -> None:
        """Remove the notes of deleted files."""
        for name in self._notes.keys() - names:
            del self._notes[name]
            self._changed = True

    def save(self) -> None:
        """Write the notes if any has changed; a full or read-only disk is tolerated."""
        self._saved = time.monotonic()
        if self._changed:
            with suppress(OSError):
                write_atomic(self._path, msgspec.json.encode(self._notes))
                self._changed = False
