"""Jobs of asynchronous rounds, and the buffer of their updates."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from aggregator.storage.journal import Journal
from tests.aggregator.journals import a_job, a_model, a_round, an_update, digest

pytestmark = pytest.mark.light


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """Two rounds, of which the first is closed, and the models of both."""
    made = Journal(tmp_path / "journal.db")
    made.add_model(a_model("old"))
    made.add_model(a_model("new", number=1, origin="fused"))
    made.open_round(a_round(1, "closed", buffer=2, staleness=0.5), [])
    made.open_round(a_round(2, buffer=2), [])
    return made


def test_the_second_job_of_a_device_in_a_round_is_its_second_turn(journal: Journal) -> None:
    for row in (a_job(1), a_job(2, "b"), a_job(3), a_job(4, round=2)):
        journal.give_job(row)
    assert [(row.number, row.turn) for row in journal.jobs("open")] == [(1, 0), (2, 0), (3, 1), (4, 0)]
    assert (journal.jobs_given(), journal.job(3), journal.job(9)) == (4, a_job(3, turn=1), None)


def test_an_accepted_update_answers_its_job_and_waits_in_the_buffer(journal: Journal) -> None:
    for number, device in enumerate("abc", start=1):
        journal.give_job(a_job(number, device))
    for number, device in ((2, "b"), (1, "a"), (3, "c")):
        journal.add_update(an_update(device, 1, job=number))
    assert [row.device for row in journal.buffer()] == ["b", "a", "c"]
    assert [row.state for row in map(journal.job, (1, 2, 3)) if row] == ["answered"] * 3
    journal.take(2, 2)
    assert ([row.device for row in journal.buffer()], [row.device for row in journal.updates(2)]) == (["c"], ["a", "b"])
    assert (journal.updates(1), journal.count_updates(2), journal.update_sizes()) == ([], 2, {2: 20})


def test_a_job_is_answered_once(journal: Journal) -> None:
    journal.give_job(a_job(1))
    journal.add_update(an_update("a", 1, job=1))
    with pytest.raises(sqlite3.IntegrityError):
        journal.add_update(an_update("a", 1, job=1, transfer="another", nonce=b"another"))


def test_of_two_updates_of_one_device_the_later_counts(journal: Journal) -> None:
    for number in (1, 2):
        journal.give_job(a_job(number, version=number))
        journal.add_update(an_update("a", 1, job=number, transfer=f"{number}", nonce=bytes([number])))
    journal.take(2, 2)
    assert [row.job for row in journal.updates(2)] == [2]
    assert (journal.count_updates(2), journal.staleness(2)) == (2, {"a": -1})


def test_staleness_counts_fusions_since_the_job(journal: Journal) -> None:
    journal.give_job(a_job(1, "a"))
    journal.give_job(a_job(2, "b", round=2, version=1))
    for number, device in ((1, "a"), (2, "b")):
        journal.add_update(an_update(device, number, job=number))
    journal.take(2, 2)
    assert journal.staleness(2) == {"a": 1, "b": 0}


def test_a_withdrawn_device_has_no_job_and_no_update_left_that_is_not_fused(journal: Journal) -> None:
    journal.set_round(2, phase="fusing")
    for number in (1, 2, 3):
        journal.give_job(a_job(number))
        if number < 3:
            journal.add_update(an_update("a", 1, job=number, transfer=f"{number}", nonce=bytes([number])))
            journal.take(number, 1)
    journal.withdraw(2, "a", "revoked")
    assert (journal.jobs("open"), journal.updates(2), journal.excluded(2)) == ([], [], {"a": "revoked"})
    assert [row.job for row in journal.updates(1)] == [1]  # that is fused


def test_a_dropped_buffer_is_not_fused(journal: Journal) -> None:
    journal.give_job(a_job(1))
    journal.add_update(an_update("a", 1, job=1))
    journal.drop_buffer("rolled back")
    journal.take(2, 5)
    assert (journal.buffer(), journal.updates(2), journal.excluded(1)) == ([], [], {"a": "rolled back"})


def test_devices_are_told_their_newest_job_until_there_is_something_newer(journal: Journal) -> None:
    journal.give_job(a_job(1, "a"))
    journal.give_job(a_job(2, "b"))
    journal.give_job(a_job(3, "b", round=2, model=digest("new")))
    journal.give_job(a_job(4, "c", round=2, model=digest("new")))
    journal.give_job(a_job(5, "d"))
    journal.set_jobs([1], "lapsed")
    journal.set_jobs([4, 5], "answered")
    assert {device: row.number for device, row in journal.told_jobs().items()} == {"a": 1, "b": 3, "c": 4}
    assert {device: row.number for device, row in journal.told_jobs(1).items()} == {"a": 1, "b": 3, "c": 4, "d": 5}
    journal.set_jobs([3], "ended")  # an agent would refuse to go back to the older one
    assert "b" not in journal.told_jobs()


def test_bases_are_kept_as_long_as_an_update_may_need_them(journal: Journal) -> None:
    journal.give_job(a_job(1, side_artifact=digest("generator")))
    assert journal.needed_bases(0) == {digest("old"), digest("generator")}
    journal.set_jobs([1], "lapsed")
    assert digest("old") in journal.needed_models(0)
    journal.add_update(an_update("a", 1, job=1))
    assert digest("old") in journal.needed_models(0)  # it waits in the buffer
    journal.take(2, 1)
    assert digest("old") in journal.needed_models(0)
    journal.open_round(a_round(3, "closed"), [])
    assert (digest("old") in journal.needed_models(1), digest("old") in journal.needed_models(0)) == (True, False)


def test_blobs_of_the_buffer_are_kept_however_old(journal: Journal) -> None:
    journal.give_job(a_job(1))
    journal.add_update(an_update("a", 1, job=1))
    for number in (3, 4):
        journal.open_round(a_round(number, "closed"), [])
    assert an_update("a", 1).digest in journal.named_blobs(0)
    assert journal.bytes_kept(0)["updates"] == 10
    journal.drop_buffer("skipped")
    assert an_update("a", 1).digest not in journal.named_blobs(0)
