"""What follows from a round that is fused: late updates are settled before, the report is kept after."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest

from aggregator.conductor import Conductor
from aggregator.rounds.events import Event, RolledBack, Skip, Stop, Stored, Tick
from aggregator.rounds.restore import restore, settle_mode
from aggregator.rounds.state import Phase, RoundState
from core.local_defaults import MOMENTUM, auto_lr
from tests.aggregator.journals import an_update

pytestmark = pytest.mark.light


def test_who_teaches_though_late_is_settled_when_fusing_begins(conductor: Conductor) -> None:
    journal = conductor.journal
    journal.add_update(an_update("b", 2))
    conductor.feed(Stored("b", 2))
    assert conductor.state.phase is Phase.FUSING
    expected = ["a"] if conductor.config.round.late == "keep" else []
    assert [row.device for row, _ in journal.late_teachers(2)] == expected


def test_the_epoch_of_a_journal_outlives_a_restart_and_a_new_one_is_told(conductor: Conductor) -> None:
    def again() -> Conductor:
        c = conductor
        made = {"blobs": c.blobs, "worker": c.worker, "publisher": c._publisher, "clock": lambda: 9000.0}
        return Conductor(c.config, journal=c.journal, **made)

    assert conductor.epoch == 5  # the clock, when the journal was new
    assert again().epoch == 5
    conductor.journal.begin_epoch(8000.0)
    assert again().epoch == 8000


def test_a_state_is_adopted_only_when_its_actions_are_durable(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The update is durable, the round's next phase is not: memory stays behind, and `resync` catches up."""
    journal = conductor.journal
    journal.add_update(an_update("b", 2))
    before = conductor.state
    with monkeypatch.context() as patch:
        patch.setattr(journal, "set_round", lambda *_, **__: (_ for _ in ()).throw(sqlite3.OperationalError("full")))
        with pytest.raises(sqlite3.OperationalError, match="full"):
            conductor.feed(Stored("b", 2))
    assert conductor.state == before
    assert not conductor.worker.busy
    assert journal.last_round().phase == "open"
    conductor.resync()
    assert conductor.state.answered == {"b"}
    conductor.feed(Tick(6.0))
    assert (conductor.state.phase, journal.last_round().phase) == (Phase.FUSING, "fusing")
    assert conductor.worker.busy


def test_a_device_that_gives_up_is_named_with_the_remedy(
    conductor: Conductor, caplog: pytest.LogCaptureFixture
) -> None:
    conductor.gave_up("b", 1, "of an older round")
    assert conductor.state.awaited == {"b"}
    conductor.gave_up("b", 2, "training diverged: the gradient is not finite")
    assert (conductor.state.awaited, conductor.journal.failures(2).keys()) == (set(), {"b"})
    (line,) = [record for record in caplog.records if "lost" in record.getMessage()]
    assert line.levelname == "ERROR"
    assert line.getMessage() == (
        "round 2: 1 of 1 devices lost: b: training diverged: the gradient is not finite; where training diverges, "
        f"a smaller learning rate helps: [train] lr is 0.1, try {min(auto_lr(4, MOMENTUM), 0.01):.3g}"
    )
    conductor.gave_up("b", 2, "once more")  # a message that comes twice
    assert len([record for record in caplog.records if "lost" in record.getMessage()]) == 1
    conductor.journal.add_update(an_update("b", 2))
    conductor.feed(Stored("b", 2))
    assert conductor.state.phase is Phase.FUSING


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
