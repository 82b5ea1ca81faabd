"""Old records are forgotten; counts, models with blobs, and the newest rounds stay."""

from __future__ import annotations

import pytest

from aggregator.storage.journal import Journal
from aggregator.storage.state_check import problems_of
from tests.aggregator.journals import a_job, a_model, a_round, an_update, asked, digest

pytestmark = pytest.mark.light
PHASES = ("closed", "abandoned", "closed", "closed", "open")


def lived(journal: Journal) -> None:
    """Five rounds of a device, the last one open, and a model of each of the first four."""
    journal.note_device("a", prototype="mlp:fp32")
    for number, phase in enumerate(PHASES, 1):
        journal.open_round(a_round(number, phase), asked("a", model=f"m{number}"))
        if phase == "closed":
            journal.add_update(an_update("a", number))
            journal.add_model(a_model(f"m{number}", number=number))


def test_the_records_of_old_rounds_go_and_their_counts_stay(journal: Journal) -> None:
    lived(journal)
    before = journal.completed(), journal.outcomes()
    assert journal.forget(2) == 3
    assert [row.number for row in journal.rounds()] == [5, 4]
    assert (journal.completed(), journal.outcomes()) == before == (3, {"closed": 3, "abandoned": 1, "open": 1})
    assert [journal.updates(number) for number in (1, 3)] == [[], []]
    assert journal.invitations(1) == []
    assert (len(journal.updates(4)), len(journal.invitations(4))) == (1, 1)
    assert [row.accepted for row in journal.devices()] == [3]
    assert list(problems_of(journal)) == []


def test_forgetting_goes_on_from_what_was_forgotten_before(journal: Journal) -> None:
    lived(journal)
    assert [journal.forget(keep) for keep in (4, 4, 2, 1)] == [1, 0, 2, 1]
    assert (journal.completed(), journal.outcomes()["abandoned"]) == (3, 1)


def test_an_open_round_stays_however_old_it_is(journal: Journal) -> None:
    journal.open_round(a_round(1, "open"), asked("a"))
    assert journal.forget(0) == 0
    assert [row.number for row in journal.rounds()] == [1]


def asynchronous(journal: Journal) -> None:
    """Four fused rounds of a buffer of one, the fifth open; each update answers a job of the round that fused it."""
    journal.note_device("a", prototype="mlp:fp32")
    for number in range(1, 6):
        journal.open_round(a_round(number, "open" if number == 5 else "closed", buffer=1), [])
        journal.give_job(a_job(number, round=number, version=number - 1, model=digest(f"m{number}")))
        if number < 5:
            journal.add_update(an_update("a", number, job=number))
            journal.take(number, 1)


def test_jobs_go_with_their_round_and_staleness_counts_what_was_forgotten(journal: Journal) -> None:
    asynchronous(journal)
    journal.set_jobs([5], "answered")
    journal.add_update(an_update("a", 5, job=5))
    journal.take(5, 1)
    assert journal.forget(1) == 4
    assert [row.number for row in journal.jobs("open", "answered")] == [5]
    assert (journal.completed(), journal.staleness(5)) == (4, {"a": 0})


def test_a_round_stays_while_a_device_may_answer_its_job(journal: Journal) -> None:
    asynchronous(journal)
    journal.give_job(a_job(6, "b", round=3))
    journal.set_jobs([6], "lapsed")
    assert (journal.forget(1), [row.number for row in journal.rounds()]) == (2, [5, 4, 3])
    journal.set_jobs([6], "ended")
    assert journal.forget(1) == 2


def test_a_round_stays_while_an_update_of_it_is_not_fused_or_only_by_a_later_one(journal: Journal) -> None:
    asynchronous(journal)
    journal.give_job(a_job(6, "b", round=2))
    journal.add_update(an_update("b", 2, job=6))
    assert (journal.forget(1), [row.number for row in journal.rounds()]) == (1, [5, 4, 3, 2])
    journal.take(5, 1)
    assert (journal.forget(1), len(journal.updates(5))) == (0, 1)


def test_only_models_without_a_blob_go_and_not_those_that_the_broker_holds(journal: Journal) -> None:
    lived(journal)
    journal.prune([1, 2])
    journal.set_retained(digest("m3"), True)
    journal.forget(1)
    assert [model.number for model in journal.models()] == [2, 3]  # 2 is m3
    assert journal.pruned() == {2}
    journal.add_model(a_model("m9", number=9))
    assert journal.current()["mlp:fp32"].number == 4  # no number is given twice


def test_of_answered_commands_the_newest_stay(journal: Journal) -> None:
    lived(journal)
    with journal.transaction():
        for _ in range(1001):
            journal.answer(journal.ask("pause"), "paused")
    open_one = journal.ask("resume")
    journal.forget(1)
    assert (journal.answer_of(1), journal.answer_of(2)) == (None, None)
    assert journal.answer_of(3) is not None
    assert [command.id for command in journal.commands()] == [open_one]
