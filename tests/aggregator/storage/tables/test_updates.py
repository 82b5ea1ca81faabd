"""Updates that count, late ones, refusals, and what is said of rounds."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from aggregator.storage.journal import Journal
from aggregator.storage.rows import Refusal
from aggregator.storage.tables.updates import REFUSALS, REPORTS
from tests.aggregator.journals import a_round, an_update, asked, digest
from wire.refusals import RefusalReason

pytestmark = pytest.mark.light


@pytest.mark.parametrize("change", [{"transfer": "0" * 32}, {"round": 2}, {"round": 2, "transfer": "0" * 32}])
def test_a_device_is_counted_once_a_round_a_transfer_once_and_a_nonce_once(journal: Journal, change: dict) -> None:
    journal.open_round(a_round(1, "closed"), [])
    journal.open_round(a_round(2), [])
    journal.add_update(an_update("a", 1))
    with pytest.raises(sqlite3.IntegrityError):
        journal.add_update(replace(an_update("a", 1), **change))


def test_decisions_are_found_by_transfer(journal: Journal) -> None:
    journal.open_round(a_round(), [])
    journal.add_update(an_update("a"))
    refusal = Refusal(device="a", transfer="t", round=1, reason="another shape", time=4.0)
    journal.add_refusal(refusal)
    assert journal.accepted_round("a", an_update("a").transfer) == 1
    assert journal.accepted_round("b", an_update("a").transfer) is None
    assert journal.refusal("a", "t") == refusal
    assert journal.refusal("b", "t") is None
    assert journal.has_nonce("a", an_update("a").nonce)
    assert not journal.has_nonce("b", an_update("a").nonce)
    assert journal.has_update("a", 1)
    assert not journal.has_update("a", 2)


def test_refusals_and_late_updates_are_counted_per_device_and_the_oldest_forgotten(journal: Journal) -> None:
    journal.open_round(a_round(), [])
    journal.add_update(an_update("a", late=True))
    with journal.transaction():
        for i in range(REFUSALS + 5):
            journal.add_refusal(Refusal(device="a", transfer=f"t{i}", round=1, reason="bad", time=float(i)))
        late = RefusalReason.LATE
        journal.add_refusal(Refusal(device="a", transfer="z", round=1, reason=late.say(number=1), time=1e9, why=late))
    (row,) = journal.devices()
    assert (row.refused, row.late, row.accepted) == (REFUSALS + 5, 2, 0)
    assert journal.refusal("a", "t5") is None
    assert journal.refusal("a", "t6") is not None
    assert len(journal.refusals(10**6)) == REFUSALS


@pytest.mark.parametrize("why", [*RefusalReason, None])
def test_a_refusal_comes_back_with_its_reason_and_only_late_is_counted_as_late(
    journal: Journal, why: RefusalReason | None
) -> None:
    refusal = Refusal(device="a", transfer="t", round=1, reason="late: whatever it says", time=4.0, why=why)
    journal.add_refusal(refusal)
    assert journal.refusal("a", "t") == refusal
    assert journal.refusals() == [refusal]
    (row,) = journal.devices()
    assert (row.late, row.refused) == ((1, 0) if why is RefusalReason.LATE else (0, 1))


def test_a_refusal_that_an_older_edgestill_has_stored_has_its_text_alone(journal: Journal) -> None:
    journal.db.execute("INSERT INTO refusals VALUES ('a', 't', 1, 'late: round 1 is closed', 4.0)")
    assert journal.refusal("a", "t") == Refusal(
        device="a", transfer="t", round=1, reason="late: round 1 is closed", time=4.0
    )


def test_late_updates_are_kept_apart(journal: Journal) -> None:
    journal.open_round(a_round(), asked("a", "b"))
    journal.add_update(an_update("a"))
    journal.add_update(an_update("b", late=True))
    assert [u.device for u in journal.updates(1)] == ["a"]
    assert [u.device for u in journal.updates(1, late=True)] == ["b"]


def test_what_devices_said_last_is_that_of_their_newest_update_that_counts(journal: Journal) -> None:
    for number in (1, 2, 3):
        journal.open_round(a_round(number, "closed"), asked("a", "b"))
        journal.add_update(replace(an_update("a", number), metrics={"accuracy": number / 10}))
    journal.add_update(replace(an_update("b", 1), metrics={"train_loss": 0.5}))
    journal.withdraw(3, "a", "not to be fused")
    assert journal.newest_metrics() == {"a": {"accuracy": 0.2}, "b": {"train_loss": 0.5}}


def test_late_updates_of_the_round_before_teach_once_it_is_settled_who(journal: Journal) -> None:
    journal.open_round(a_round(1, "closed"), asked("a", "b", "c", "d", "e"))
    for device in ("a", "b", "d", "e"):
        journal.add_update(an_update(device, 1, late=True))
    journal.withdraw(1, "d", "revoked")  # revoked while the round was open
    journal.note_device("e", revoked=1)  # and after it
    journal.open_round(a_round(2, "fusing"), asked("a", "b", "c"))
    journal.add_update(an_update("b", 2))  # in time now: its late model is the older one
    assert journal.late_teachers(2) == []
    journal.note_late(2)
    assert journal.late_teachers(2) == [(an_update("a", 1, late=True), digest("m"))]
    journal.add_update(an_update("c", 1, late=True))  # after fusing has begun: a restart must not see it
    assert [row.device for row, _ in journal.late_teachers(2)] == ["a"]
    assert journal.late_teachers(3) == []


def test_reports_of_the_newest_rounds_are_kept(journal: Journal) -> None:
    for number in range(1, REPORTS + 3):
        journal.add_report(number, {"devices": {"a": {"weight": number}}})
    assert journal.report(2) == journal.report(10**6) == {}
    assert journal.report(3) == {"devices": {"a": {"weight": 3}}}
    assert journal.report(REPORTS + 2)["devices"]["a"]["weight"] == REPORTS + 2


def test_failures_of_the_newest_rounds_are_kept(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.db")
    journal.add_failure(1, "pi-1", "out of memory")
    journal.add_failure(1, "pi-2", "training diverged")
    journal.add_failure(1, "pi-1", "disk full")
    assert journal.failures(1) == {"pi-1": "disk full", "pi-2": "training diverged"}
    assert journal.failures(2) == {}
    journal.add_failure(REPORTS + 1, "pi-1", "again")
    assert journal.failures(1) == {}


def test_an_update_that_was_taken_out_is_named_with_its_reason_and_still_not_sent_again(journal: Journal) -> None:
    journal.open_round(a_round(), asked("a", "b"))
    journal.add_update(an_update("a"))
    journal.add_update(an_update("b"))
    journal.withdraw(1, "b", "another shape")
    assert journal.excluded(1) == {"b": "another shape"}
    assert journal.updates(1, late=True) == []
    assert journal.has_update("b", 1)
    assert journal.accepted_round("b", an_update("b").transfer) == 1
