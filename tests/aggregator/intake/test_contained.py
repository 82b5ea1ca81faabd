"""One message's fault stays that message's: what is logged of it, and how often."""

from __future__ import annotations

import sqlite3

import pytest

from aggregator.intake.contained import OURS, REASONS, WINDOW_S, Complaints, describe

pytestmark = pytest.mark.light


def test_an_exception_is_one_printable_line() -> None:
    assert describe(ValueError("two\nlines \x1b[31mred")) == "ValueError: two lines ?[31mred"
    assert describe(MemoryError()) == "MemoryError"
    assert len(describe(ValueError("x" * 10_000))) < 400


def test_errors_of_our_own_disk_are_nobody_elses() -> None:
    assert issubclass(sqlite3.OperationalError, OURS)
    assert issubclass(PermissionError, OURS)
    for theirs in (ValueError, MemoryError, RecursionError, UnicodeDecodeError, KeyError):
        assert not issubclass(theirs, OURS)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_reason_is_told_once_a_minute_whatever_numbers_and_names_are_in_it() -> None:
    clock = Clock()
    complaints = Complaints(clock)
    assert complaints.new("pi-0", "chunk 7 of 'abc' is damaged")
    assert not complaints.new("pi-0", "chunk 8 of 'def' is damaged")
    assert complaints.new("pi-1", "chunk 7 of 'abc' is damaged")
    clock.now = WINDOW_S
    assert complaints.new("pi-0", "chunk 9 of 'abc' is damaged")


def test_a_device_has_few_lines_a_minute_whatever_it_makes_up() -> None:
    clock = Clock()
    complaints = Complaints(clock)
    told = [complaints.new("pi-0", f"reason {'x' * n}") for n in range(100)]
    assert sum(told) == REASONS
    assert complaints.new("pi-1", "reason")


def test_the_memory_for_complaints_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aggregator.intake.contained.DEVICES", 10)
    complaints = Complaints(Clock())
    for n in range(100):
        complaints.new(f"pi-{n}", "reason")
    assert len(complaints._logged) <= 10
