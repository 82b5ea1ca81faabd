"""Actions of asynchronous rounds: the journal after them is the engine's state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aggregator.conductor import Conductor
from aggregator.job_actions import record_job_action
from aggregator.rounds.events import Event, Give, GivenJob, RolledBack, Skip, Stop, Stored, Tick
from aggregator.rounds.restore import restore, settle_mode
from aggregator.rounds.state import Phase, RoundState
from core.errors import StorageError
from tests.aggregator.journals import an_update

pytestmark = pytest.mark.light


def answer(conductor: Conductor, device: str) -> None:
    """The device answers its job."""
    job = conductor.state.working[device]
    row = an_update(device, job.round, job=job.number, transfer=f"{job.number}", nonce=bytes([job.number]))
    conductor.journal.add_update(row)
    conductor.feed(Stored(device, job.round, job.number))


def restored(conductor: Conductor) -> RoundState:
    """The state as a restart finds it; presence and deadlines are not of the journal."""
    state = restore(conductor.journal, conductor.state.rules, conductor.config.devices, 0.0)
    own = conductor.state
    return replace(state, devices=own.devices, unheard=frozenset(), deadline=own.deadline, then=own.then)


def test_asynchronous_rounds_are_in_the_journal_as_in_memory(asynchronous: Conductor) -> None:
    journal = asynchronous.journal
    assert [(row.device, row.round, row.version, row.deadline) for row in journal.jobs("open")] == [
        (device, 1, 0, 105.0) for device in "abc"
    ]
    answer(asynchronous, "b")
    assert restored(asynchronous) == asynchronous.state
    asynchronous.feed(Tick(6.0))
    assert restored(asynchronous) == asynchronous.state
    asynchronous.gave_up("c", 1, "out of memory")
    answer(asynchronous, "a")
    assert (asynchronous.state.phase, journal.last_round().phase) == (Phase.FUSING, "fusing")
    assert [row.device for row in journal.updates(1)] == ["a", "b"]
    assert journal.failures(1) == {"c": "out of memory"}
    state = restored(asynchronous)
    assert replace(state, gave_up=asynchronous.state.gave_up) == asynchronous.state


def test_jobs_that_are_late_lapse_in_the_journal_too(asynchronous: Conductor) -> None:
    asynchronous.state = replace(
        asynchronous.state, rules=replace(asynchronous.state.rules, concurrency=2), working={}, given=3
    )
    asynchronous.journal.set_jobs([1, 2, 3], "ended")
    asynchronous.feed(Tick(6.0))
    assert len(asynchronous.journal.jobs("open")) == 2
    asynchronous.feed(Tick(200.0))
    (late,) = asynchronous.journal.jobs("lapsed")
    assert (len(asynchronous.journal.jobs("open")), late.deadline) == (2, 106.0)
    asynchronous.feed(Tick(400.0))
    assert late.number not in {row.number for row in asynchronous.journal.jobs("open", "lapsed")}


def test_a_memory_that_lags_behind_the_journal_takes_the_buffer_from_it(asynchronous: Conductor) -> None:
    job = asynchronous.state.working["a"]
    asynchronous.journal.add_update(an_update("a", 1, job=job.number))
    asynchronous.resync()
    assert (asynchronous.state.buffer, set(asynchronous.state.working)) == (("a",), {"b", "c"})
    assert asynchronous.state.devices["a"].status == "online"


@pytest.mark.parametrize("event", [Skip(), RolledBack(), Stop()])
def test_what_the_operator_gives_up_is_not_fused_after_a_restart(asynchronous: Conductor, event: Event) -> None:
    asynchronous.state = replace(asynchronous.state, rules=replace(asynchronous.state.rules, buffer=9))
    answer(asynchronous, "a")
    asynchronous.feed(event)
    assert asynchronous.journal.last_round().phase == "abandoned"
    assert asynchronous.journal.buffer() == []
    assert restored(asynchronous).working == asynchronous.state.working


def test_a_job_whose_model_is_damaged_is_not_given(asynchronous: Conductor) -> None:
    journal = asynchronous.journal
    (model,) = journal.models()
    asynchronous.blobs.path(model.digest).write_bytes(b"other")
    job = GivenJob(number=9, round=1, version=0, prototype="mlp:fp32", deadline=9.0)
    with pytest.raises(StorageError, match="blob"):
        record_job_action(Give("a", job), journal, asynchronous.blobs, 1.0)
    assert journal.job(9) is None


def test_the_other_mode_ends_what_belongs_to_this_one(asynchronous: Conductor) -> None:
    journal, rules = asynchronous.journal, asynchronous.state.rules
    answer(asynchronous, "a")
    assert settle_mode(journal, rules, 9.0) == ""
    told = settle_mode(journal, replace(rules, buffer=0), 9.0)
    assert told == "the mode of rounds was changed: round 1 is abandoned, 2 jobs are ended, 1 updates are dropped"
    assert (journal.last_round().phase, journal.jobs("open"), journal.buffer()) == ("abandoned", [], [])
    assert settle_mode(journal, replace(rules, buffer=0), 9.0) == ""


def test_a_synchronous_round_that_is_open_is_abandoned_for_asynchronous_ones(conductor: Conductor) -> None:
    rules = replace(conductor.state.rules, buffer=2)
    assert settle_mode(conductor.journal, rules, 9.0).startswith("the mode of rounds was changed: round 2 is abandoned")
    conductor.journal.set_round(2, phase="fusing")
    assert settle_mode(conductor.journal, rules, 9.0) == ""  # it is finished
