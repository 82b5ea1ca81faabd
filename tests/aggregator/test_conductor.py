"""What follows from a round that is fused: late updates are settled before, the report is kept after."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aggregator.conductor import Conductor
from aggregator.config.fleet import load_fleet_config
from aggregator.downlink.instructions import instructions
from aggregator.downlink.publisher import Publisher
from aggregator.round_log import log_lost
from aggregator.rounds.engine import Phase
from aggregator.rounds.events import AboutHeard, Stored, Tick
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.worker.supervisor import WorkerProcess
from core.local_defaults import MOMENTUM, auto_lr
from tests.aggregator.journals import a_model, a_round, an_update, asked
from tests.aggregator.scripted import FLEET, key_of, write_fleet
from transport.config import BrokerConfig
from wire.ids import AGGREGATOR
from wire.messages import Job, Offer

pytestmark = pytest.mark.light


@pytest.fixture(params=["keep", "drop"])
def conductor(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Conductor]:
    """In round 2, which waits for device b; device a was late in round 1. The worker never answers."""
    monkeypatch.setattr(sys, "executable", "/bin/cat")
    round_table, names = f'late = "{request.param}"', '!names = ["mlp:fp32"]'
    config = load_fleet_config(
        write_fleet(tmp_path, BrokerConfig(), ["a", "b"], round=round_table, prototypes=names), environ={}
    )
    config.state.mkdir()
    journal, blobs = Journal(config.state / "journal.db"), Blobs(config.state / "blobs")
    journal.add_model(a_model())
    journal.open_round(a_round(1, "closed"), asked("a", "b"))
    journal.add_update(an_update("a", 1, late=True))
    journal.open_round(a_round(2), asked("b"))
    publisher = Publisher(lambda *_: True, key=key_of(AGGREGATOR), fleet=FLEET, blobs=blobs, journal=journal)
    worker = WorkerProcess({}, lambda: None)
    yield Conductor(config, journal=journal, blobs=blobs, worker=worker, publisher=publisher, clock=lambda: 5.0)
    worker.close()


def test_who_teaches_though_late_is_settled_when_fusing_begins(conductor: Conductor) -> None:
    journal = conductor.journal
    journal.add_update(an_update("b", 2))
    conductor.feed(Stored("b", 2))
    assert conductor.state.phase is Phase.FUSING
    expected = ["a"] if conductor.config.round.late == "keep" else []
    assert [row.device for row, _ in journal.late_teachers(2)] == expected


def test_the_report_of_a_fused_round_is_kept_with_its_models(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    journal = conductor.journal
    journal.add_update(an_update("b", 2))
    conductor.feed(Stored("b", 2))
    report = {"devices": {"b": {"weight": 0.0, "score": None, "screened": "no better than chance"}}, "seconds": {}}
    answer = {"task": "fuse", "round": 2, "models": [], "report": report}
    monkeypatch.setattr(conductor.worker, "take", lambda: answer)
    conductor.fusing.drive()
    assert journal.report(2) == report
    assert journal.completed() == 2
    assert "the update of 'b' was left out: no better than chance" in caplog.text


def test_capped_devices_are_named_in_one_line_when_the_round_closes(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    conductor.journal.add_update(an_update("b", 2))
    conductor.feed(Stored("b", 2))
    fair = {"weight": 0.1, "score": None, "screened": None, "capped": None}
    capped = {**fair, "capped": {"claimed": 2**53, "counted": 270, "labels": None}}
    devices = {"a": fair, **{f"x{n}": capped for n in range(7)}}
    answer = {"task": "fuse", "round": 2, "models": [], "report": {"devices": devices, "seconds": {}}}
    monkeypatch.setattr(conductor.worker, "take", lambda: answer)
    conductor.fusing.drive()
    (line,) = [record.getMessage() for record in caplog.records if "max_examples_ratio" in record.getMessage()]
    assert line.startswith(
        "round 2: capped by [fusion] max_examples_ratio: 'x0' claimed 9,007,199,254,740,992 examples, "
    )
    assert line.endswith("'x4' claimed 9,007,199,254,740,992 examples, counted for 270; and 2 more")


def test_jobs_and_offers_name_their_device_the_epoch_and_the_number_of_the_model(conductor: Conductor) -> None:
    for device in "ab":
        conductor.feed(AboutHeard(device, "mlp:fp32"))
    told = instructions(conductor.state, conductor.journal, conductor.epoch)
    number = conductor.journal.current()["mlp:fp32"].number
    assert number == 1
    job, offer = told["b"], told["a"]
    assert (type(job), job.device, job.epoch, job.number) == (Job, "b", 5, number)
    assert (type(offer), offer.device, offer.epoch, offer.number) == (Offer, "a", 5, number)


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


def test_an_answer_of_the_worker_is_kept_until_it_is_durable(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = conductor.journal
    journal.add_update(an_update("b", 2))
    conductor.feed(Stored("b", 2))
    answers = iter([{"task": "fuse", "round": 2, "models": [], "report": {"devices": {}, "seconds": {}}}])
    monkeypatch.setattr(conductor.worker, "take", lambda: next(answers, None))
    with monkeypatch.context() as patch:
        patch.setattr(journal, "add_report", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space"):
            conductor.fusing.drive()
    assert (conductor.state.phase, journal.completed()) == (Phase.FUSING, 1)
    conductor.fusing.drive()  # without asking the worker again
    assert (conductor.state.phase, journal.completed()) == (Phase.WAITING, 2)


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


@pytest.mark.parametrize(
    ("asked_for", "levels"), [(20, {3: "WARNING", 11: "ERROR"}), (4, {1: "WARNING", 3: "ERROR"}), (1, {1: "ERROR"})]
)
def test_a_tenth_and_a_half_are_told_once_each(
    conductor: Conductor, caplog: pytest.LogCaptureFixture, asked_for: int, levels: dict[int, str]
) -> None:
    found = {}
    for count in range(1, asked_for + 1):
        caplog.clear()
        log_lost(conductor.config.hyper, 2, {f"d{n}": "why" for n in range(count)}, asked_for)
        if caplog.records:
            (record,) = caplog.records
            found[count] = record.levelname
    assert found == levels
