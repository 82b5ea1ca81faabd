"""Every part of a pass is tried; after one that failed, memory is brought to the journal first."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from aggregator.attempts import Attempts
from core.errors import StorageError

pytestmark = pytest.mark.light


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), sqlite3.OperationalError("locked")])
def test_what_the_disk_refuses_stops_no_other_part_and_is_tried_again_after_a_resync(error: Exception) -> None:
    done: list[str] = []

    def fail() -> None:
        raise error

    attempts = Attempts(Path("state"), lambda: done.append("resync"))
    assert not attempts.run([lambda: done.append("before"), fail, lambda: done.append("after")])
    assert done == ["before", "resync", "after"]
    assert attempts.run([lambda: done.append("again")])
    assert done[3:] == ["again"]


def test_memory_that_is_behind_is_brought_up_before_the_next_part() -> None:
    done: list[str] = []
    attempts = Attempts(Path("state"), lambda: done.append("resync"))
    attempts.mark_stale()
    assert attempts.run([lambda: done.append("part")])
    assert done == ["resync", "part"]


def test_other_faults_are_not_the_disks() -> None:
    def fail() -> None:
        raise ValueError("a fault of ours")

    with pytest.raises(ValueError, match="a fault of ours"):
        Attempts(Path("state"), lambda: None).run([fail])


def test_equal_complaints_are_one_line_and_damage_names_the_remedy(caplog: pytest.LogCaptureFixture) -> None:
    def full() -> None:
        raise StorageError("full")

    def damaged() -> None:
        raise sqlite3.DatabaseError("malformed")

    attempts = Attempts(Path("state"), lambda: None)
    for _ in range(3):
        attempts.run([full])
    attempts.run([damaged])
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == "state folder state: full; nothing is lost, it is tried again"
    assert len(lines) == 2
    assert lines[1].startswith("state folder state: malformed; the journal is damaged: put a backup back")
