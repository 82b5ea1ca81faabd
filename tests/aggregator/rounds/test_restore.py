"""Where a restarted service goes on."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from aggregator.rounds.restore import GRACE, restore
from aggregator.rounds.state import Hold, Phase, Rules, Seen
from aggregator.storage.journal import Journal
from tests.aggregator.journals import a_model, a_round, an_update, asked

pytestmark = pytest.mark.light
RULES = Rules(seed=0, prototypes=("mlp:fp32",), rounds=2, fraction=1.0, min_devices=1, quorum=0.5, deadline_s=100.0)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    made = Journal(tmp_path / "j.db")
    made.add_model(a_model())
    return made


def test_an_empty_journal_starts_with_building_models(tmp_path: Path) -> None:
    state = restore(Journal(tmp_path / "j.db"), RULES, (), 0.0)
    assert (state.phase, state.round, state.completed) == (Phase.STARTING, 0, 0)


def test_between_rounds_it_waits(journal: Journal) -> None:
    journal.open_round(a_round(4, "abandoned"), [])
    state = restore(journal, RULES, (), 0.0)
    assert (state.phase, state.round, state.completed, state.done) == (Phase.WAITING, 4, 0, "")


@pytest.mark.parametrize(("phase", "expected"), [("open", Phase.COLLECTING), ("fusing", Phase.FUSING)])
def test_an_open_round_goes_on_with_who_was_asked_and_who_has_answered(
    journal: Journal, phase: str, expected: Phase
) -> None:
    journal.open_round(a_round(1, phase, deadline=500.0, extended=True), asked("a", "b", "c"))
    journal.add_update(an_update("a"))
    journal.add_update(an_update("b", late=True))
    state = restore(journal, RULES, (), 10.0)
    assert (state.phase, state.round, state.answered) == (expected, 1, frozenset("a"))
    assert list(state.invited) == ["a", "b", "c"]
    assert (state.deadline, state.extended) == (500.0, True)


def test_who_has_given_up_is_known_after_a_restart(journal: Journal) -> None:
    journal.open_round(a_round(1, deadline=500.0), asked("a", "b", "c"))
    journal.add_failure(1, "b", "out of memory")
    journal.add_failure(1, "c", "training diverged")
    journal.add_update(an_update("c"))  # after all
    state = restore(journal, RULES, (), 10.0)
    assert (state.gave_up, state.awaited) == (frozenset("b"), {"a"})


def test_devices_that_waited_for_the_restart_get_some_time(journal: Journal) -> None:
    journal.open_round(a_round(1, deadline=500.0), asked("a"))
    assert restore(journal, RULES, (), 9000.0).deadline == 9000.0 + GRACE


def test_devices_are_known_if_they_are_still_in_the_config_and_none_is_online_yet(journal: Journal) -> None:
    journal.note_device("a", status="online", session=7, prototype="mlp:fp32", muted_until=3.0)
    journal.note_device("b", revoked=1)
    journal.note_device("gone", status="online")
    journal.note_device("c", status="lost", session=2)
    state = restore(journal, RULES, {"a", "b", "c"}, 0.0)
    assert (state.unheard, state.settled) == (frozenset("a"), math.inf)
    assert state.devices == {
        "c": Seen(status="lost", session=2),
        "a": Seen(status="unknown", session=7, prototype="mlp:fp32", muted_until=3.0),
        "b": Seen(revoked=True),
    }


def test_a_pause_outlives_a_restart(journal: Journal) -> None:
    journal.put("hold", "paused")
    assert restore(journal, RULES, (), 0.0).hold is Hold.PAUSED


def test_done_is_found_again_and_more_rounds_in_the_config_undo_it(journal: Journal) -> None:
    for number in (1, 2):
        journal.open_round(a_round(number, "closed"), [])
    assert restore(journal, RULES, (), 0.0).done == "all 2 rounds are done"
    more = Rules(**{name: getattr(RULES, name) for name in Rules.__slots__} | {"rounds": 3})
    assert restore(journal, more, (), 0.0).done == ""


def test_a_prototype_that_is_new_in_the_config_is_built_first_and_the_round_goes_on(journal: Journal) -> None:
    journal.open_round(a_round(1), asked("a"))
    rules = Rules(**{name: getattr(RULES, name) for name in Rules.__slots__} | {"prototypes": ("mlp:fp32", "cnn:w1")})
    state = restore(journal, rules, (), 0.0)
    assert (state.phase, state.then, list(state.invited)) == (Phase.STARTING, Phase.COLLECTING, ["a"])
