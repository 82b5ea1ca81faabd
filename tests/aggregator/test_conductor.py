"""What follows from a round that is fused: late updates are settled before, the report is kept after."""

from __future__ import annotations

import sqlite3

import pytest

from aggregator.conductor import Conductor
from aggregator.rounds.events import Stored, Tick
from aggregator.rounds.state import Phase
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
