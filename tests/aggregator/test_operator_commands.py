"""What operators ask through the journal, and the answer to each."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aggregator.conductor import Conductor
from aggregator.config.fleet import load_fleet_config
from aggregator.downlink.publisher import Publisher
from aggregator.intake.transfers import Uploads
from aggregator.operator_commands import run_command
from aggregator.rounds.events import AboutHeard, StateHeard
from aggregator.rounds.state import Hold, Phase
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.storage.rows import Answer
from aggregator.worker.supervisor import WorkerProcess
from tests.aggregator.journals import a_model, a_round, asked
from tests.aggregator.scripted import FLEET, key_of, write_fleet
from transport.config import BrokerConfig
from wire.ids import AGGREGATOR

pytestmark = pytest.mark.light


@pytest.fixture
def conductor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Conductor]:
    """In round 2, which waits for devices a and b. The worker never answers."""
    monkeypatch.setattr(sys, "executable", "/bin/cat")
    path = write_fleet(tmp_path, BrokerConfig(), ["a", "b"], prototypes='!names = ["mlp:fp32"]')
    config = load_fleet_config(path, environ={})
    config.state.mkdir()
    journal, blobs = Journal(config.state / "journal.db"), Blobs(config.state / "blobs")
    journal.add_model(a_model())
    journal.open_round(a_round(1, "closed"), asked("a", "b"))
    journal.open_round(a_round(2), asked("a", "b"))
    publisher = Publisher(lambda *_: True, key=key_of(AGGREGATOR), fleet=FLEET, blobs=blobs, journal=journal)
    worker = WorkerProcess({}, lambda: None)
    made = Conductor(config, journal=journal, blobs=blobs, worker=worker, publisher=publisher, clock=lambda: 5.0)
    for device in "ab":
        made.feed(AboutHeard(device, "mlp:fp32"))
        made.feed(StateHeard(device, "online", 1))
    yield made
    worker.close()


@pytest.fixture
def uploads(tmp_path: Path) -> Uploads:
    return Uploads(tmp_path / "parts", max_size=10, per_device=1, max_bytes=10)


def answer(conductor: Conductor, uploads: Uploads, verb: str, argument: str = "") -> Answer | None:
    number = conductor.journal.ask(verb, argument)
    (command,) = conductor.journal.commands()
    run_command(command, conductor, uploads)
    return conductor.journal.answer_of(number)


@pytest.mark.parametrize(("verb", "hold"), [("pause", "paused"), ("resume", "running"), ("stop", "stopped")])
def test_a_hold_is_recorded_for_the_next_start_and_in_force_now(
    conductor: Conductor, uploads: Uploads, verb: str, hold: str
) -> None:
    assert answer(conductor, uploads, verb) == Answer(hold)
    assert conductor.journal.get("hold") == hold
    assert conductor.state.hold is Hold(hold)


def test_a_skipped_round_is_given_up_and_without_one_there_is_nothing_to_skip(
    conductor: Conductor, uploads: Uploads
) -> None:
    assert answer(conductor, uploads, "skip") == Answer("round 2 skipped")
    assert conductor.state.phase is Phase.WAITING
    refused = answer(conductor, uploads, "skip")
    assert refused == Answer("no round is open; there is nothing to skip", failed=True)


def test_a_revoked_device_leaves_the_round_and_may_come_back(conductor: Conductor, uploads: Uploads) -> None:
    def revoked() -> list[str]:
        return [row.id for row in conductor.journal.devices() if row.revoked]

    assert answer(conductor, uploads, "revoke", "b") == Answer("revoked")
    assert (revoked(), conductor.state.awaited) == (["b"], {"a"})
    assert answer(conductor, uploads, "allow", "b") == Answer("allowed")
    assert revoked() == []


def test_what_cannot_be_done_is_answered_in_one_line(conductor: Conductor, uploads: Uploads) -> None:
    assert answer(conductor, uploads, "dance") == Answer("unknown command 'dance'", failed=True)
    newest = conductor.journal.current()["mlp:fp32"].digest
    rolled_back = answer(conductor, uploads, "rollback", newest)
    assert rolled_back is not None
    assert rolled_back.failed
    assert "is the newest of mlp:fp32 already" in rolled_back.text
    assert conductor.state.phase is Phase.COLLECTING


def test_a_command_and_what_follows_from_it_are_one_transaction(
    conductor: Conductor, uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = conductor.journal
    number = journal.ask("revoke", "b")
    (command,) = journal.commands()
    with monkeypatch.context() as patch:
        patch.setattr(journal, "withdraw", lambda *_: (_ for _ in ()).throw(sqlite3.OperationalError("locked")))
        with pytest.raises(sqlite3.OperationalError):
            run_command(command, conductor, uploads)
    assert (journal.answer_of(number), [row.id for row in journal.devices() if row.revoked]) == (None, [])
    run_command(command, conductor, uploads)
    assert (journal.answer_of(number), [row.id for row in journal.devices() if row.revoked]) == (
        Answer("revoked"),
        ["b"],
    )
    assert [invitation.device for invitation in journal.invitations(2)] == ["a"]


def test_models_are_pruned_by_the_policy_of_the_command_and_their_blobs_go(
    conductor: Conductor, uploads: Uploads
) -> None:
    rows = []
    for number in range(1, 7):
        digest = conductor.blobs.put(b"model %d" % number)
        rows.append(a_model(number=number, digest=digest, size=7))
        conductor.journal.add_model(rows[-1])
    done = answer(conductor, uploads, "pin", rows[1].digest)
    assert done == Answer("model 3 of mlp:fp32: pinned")
    done = answer(conductor, uploads, "prune", '{"last": 2}')
    assert done == Answer("3 models pruned, 21 bytes")
    left = [n for n, row in enumerate(rows, 1) if row.digest in conductor.blobs]
    assert left == [2, 5, 6]
    assert answer(conductor, uploads, "prune", '{"last": 2}') == Answer("0 models pruned, 0 bytes")
    refused = answer(conductor, uploads, "pin", rows[0].digest)
    assert refused is not None
    assert (refused.failed, "was pruned" in refused.text) == (True, True)
    assert answer(conductor, uploads, "unpin", rows[1].digest) == Answer("model 3 of mlp:fp32: unpinned")
    assert answer(conductor, uploads, "prune", '{"last": 2}') == Answer("1 models pruned, 7 bytes")
    gone = answer(conductor, uploads, "rollback", rows[0].digest)
    assert gone is not None
    assert "model 2 was pruned" in gone.text
