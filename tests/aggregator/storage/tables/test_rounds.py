"""Rounds, invitations and epochs."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from aggregator.storage.journal import Journal
from tests.aggregator.journals import a_round, an_update, asked

pytestmark = pytest.mark.light


def test_there_is_one_open_round_at_a_time(journal: Journal) -> None:
    journal.open_round(a_round(1, "fusing"), [])
    with pytest.raises(sqlite3.IntegrityError):
        journal.open_round(a_round(2), [])
    journal.set_round(1, phase="closed", closed=9.0)
    journal.open_round(a_round(2), [])
    assert [(r.number, r.phase, r.closed) for r in journal.rounds()] == [(2, "open", None), (1, "closed", 9.0)]
    assert journal.completed() == 1


def test_a_withdrawn_invitation_takes_its_update_out_of_the_round(journal: Journal) -> None:
    journal.open_round(a_round(), asked("a", "b"))
    journal.add_update(an_update("a"))
    journal.withdraw(1, "a", "revoked")
    assert [i.device for i in journal.invitations(1)] == ["b"]
    assert journal.updates(1) == []


def test_an_epoch_is_the_time_and_only_grows(tmp_path: Path, journal: Journal) -> None:
    assert journal.epoch() == 0
    assert journal.begin_epoch(1_760_000_000.9) == 1_760_000_000
    assert journal.begin_epoch(1_760_000_000.9) == 1_760_000_001  # a clock that stands, or has gone back
    assert journal.begin_epoch(12.0) == 1_760_000_002
    assert journal.begin_epoch(1_760_000_500.0) == 1_760_000_500
    assert Journal(tmp_path / "journal.db", read_only=True).epoch() == 1_760_000_500


def test_a_board_that_thinks_it_is_1970_begins_an_epoch_all_the_same(journal: Journal) -> None:
    assert journal.begin_epoch(0.0) == 1


def test_only_fused_rounds_are_completed_and_the_newest_come_first(journal: Journal) -> None:
    for number, phase in ((1, "closed"), (2, "abandoned"), (3, "closed"), (4, "open")):
        journal.open_round(a_round(number, phase), [])
    assert journal.completed() == 2
    assert [row.number for row in journal.rounds(2)] == [4, 3]
    assert journal.last_round() == a_round(4)


def test_a_change_of_one_round_leaves_the_others(journal: Journal) -> None:
    journal.open_round(a_round(1, "closed"), asked("a"))
    journal.open_round(a_round(2), asked("a", "b"))
    journal.set_round(2, deadline=7.0, extended=True)
    journal.withdraw(2, "a", "revoked")
    assert journal.rounds() == [a_round(2, deadline=7.0, extended=True), a_round(1, "closed")]
    assert [i.device for i in journal.invitations(1)] == ["a"]


def test_rounds_are_counted_by_phase_and_the_last_fused_one_is_found(journal: Journal) -> None:
    assert (journal.outcomes(), journal.last_closed()) == ({}, None)
    for number, phase in enumerate(("closed", "closed", "abandoned", "open"), 1):
        journal.open_round(a_round(number, phase), [])
    assert journal.outcomes() == {"closed": 2, "abandoned": 1, "open": 1}
    last = journal.last_closed()
    assert last is not None
    assert (last.number, last.hyper) == (2, a_round().hyper)
    before = journal.last_closed(before=2)
    assert before is not None
    assert before.number == 1
    assert journal.last_closed(before=1) is None


def test_a_round_by_its_number(journal: Journal) -> None:
    journal.open_round(a_round(7), [])
    assert (journal.round(7), journal.round(8)) == (a_round(7), None)
