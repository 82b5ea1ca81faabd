"""Notes are written together, once a second at the most, or at once when asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.device_notes import DeviceNotes
from aggregator.storage.journal import Journal

pytestmark = pytest.mark.light


def test_notes_wait_for_their_second(tmp_path: Path) -> None:
    now = 100.0
    journal = Journal(tmp_path / "journal.db")
    notes = DeviceNotes(journal, lambda: now)
    notes.note("a", status="online")
    notes.note("a", board="pi")
    notes.bad["a"] += 2
    notes.keep()
    (row,) = journal.devices()
    assert (row.status, row.board, row.seen, row.refused) == ("online", "pi", 100.0, 2)
    assert not notes.bad
    notes.note("b", status="online")
    now = 100.5
    notes.keep()
    assert [row.id for row in journal.devices()] == ["a"]
    notes.keep(at_once=True)
    assert [row.id for row in journal.devices()] == ["a", "b"]


def test_a_retained_message_is_no_sign_of_life(tmp_path: Path) -> None:
    now = 100.0
    journal = Journal(tmp_path / "journal.db")
    notes = DeviceNotes(journal, lambda: now)
    notes.note("a")
    notes.keep(at_once=True)
    now = 500.0
    notes.note("a", live=False, status="lost")
    notes.note("b", live=False)
    notes.keep(at_once=True)
    assert [(row.id, row.status, row.seen) for row in journal.devices()] == [("a", "lost", 100.0)]
