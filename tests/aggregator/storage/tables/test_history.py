"""Old records are forgotten; counts, models with blobs, and the newest rounds stay."""

from __future__ import annotations

import pytest

from aggregator.storage.journal import Journal
from aggregator.storage.state_check import problems_of
from tests.aggregator.journals import a_model, a_round, an_update, asked, digest

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
