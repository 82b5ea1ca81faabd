"""Every write, sync, rename and commit of a round fails in turn: the service goes on, and the models are the same.

The calls are those of the real service and its worker, SQLite's among them; see `faulty_disk.c`. After each fault the
fleet must finish a further round within `PATIENCE_S`, and in the end every model of every round must have the bits of a
fleet that nothing has disturbed.
"""

from __future__ import annotations

import errno
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from aggregator.storage.journal import Journal
from aggregator.storage.rows import Answer
from tests.aggregator.running import Aggregator, wait_until
from tests.aggregator.scripted import Device, make_update, write_fleet
from tests.brokers import Mosquitto
from tests.brokers import mosquitto as mosquitto
from tests.faults.faulty_disk import FaultyDisk
from wire.headers import decode_model
from wire.ids import digest_of
from wire.messages import Job
from wire.tensors import decode

NAMES = ["pi-0", "pi-1", "pi-2"]
ERRORS = [errno.ENOSPC, errno.EIO, errno.EROFS]
PATIENCE_S = 120.0
ROUNDS = 100_000
pytestmark = pytest.mark.broker


def small_update(device: str, job: Job, artifact: bytes) -> bytes:
    """Moves every float a little, by an amount that device and round decide."""
    shift = np.float32(int(digest_of(f"{device} {job.round}".encode())[:4], 16) / 2**16 - 0.5) / 100
    tensors = decode(decode_model(artifact)[1])
    moved = {n: t.astype(np.float32) + shift if t.dtype.kind == "f" else t for n, t in tensors.items()}
    return make_update(device, job, artifact, tensors=moved)


class Fleet:
    """A service on a folder of its own, and three devices: one sends part files, two are held in memory."""

    def __init__(self, folder: Path, broker: Mosquitto, started: Path | None = None, **env: str) -> None:
        tables = {
            "round": f"!rounds = {ROUNDS}\nmin_devices = 3\ndeadline_s = 600",
            "fusion": 'recipe = "fedavgm"',
        }
        self.service = Aggregator(write_fleet(folder, broker.config, NAMES, **tables))
        if started is not None:
            shutil.copytree(started, folder / "state")
        self.devices = [
            Device(name, prototype, broker.config, chunk_size=size)
            for name, prototype, size in zip(NAMES, ("mlp:fp32", "cnn:w1", "cnn:w1"), (8192, 65536, 65536), strict=True)
        ]
        for device in self.devices:
            device.make = small_update
        self.env = env

    def __enter__(self) -> Fleet:
        self.service.start(env=self.env)
        for device in self.devices:
            device.start()
        return self

    def __exit__(self, *_: object) -> None:
        for device in self.devices:
            device.end()
        self.service.__exit__()

    def completed(self) -> int:
        journal = self.service.journal()
        try:
            return journal.completed()
        finally:
            journal.close()

    def wait_for(self, rounds: int, seconds: float = PATIENCE_S) -> None:
        def done() -> bool:
            assert self.service.process.poll() is None, f"it died: {self.service.log.read_text()[-3000:]}"
            return self.completed() >= rounds

        wait_until(done, seconds, lambda: self.service.log.read_text()[-3000:])

    def history(self, rounds: int) -> dict[int, list[tuple[str, str]]]:
        """The models of the first rounds, and by whose updates, by round."""
        journal = self.service.journal()
        try:
            found: dict[int, list[tuple[str, str]]] = {n: [] for n in range(1, rounds + 1)}
            for model in journal.models():
                if model.round in found:
                    found[model.round].append((model.prototype, model.digest))
            for number, models in found.items():
                assert [u.device for u in journal.updates(number)] == NAMES
                models.sort()
            return found
        finally:
            journal.close()


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("started")
    with Mosquitto(folder / "mosquitto") as broker:
        fleet = Fleet(folder, broker)
        fleet.service.start()
        fleet.service.until(lambda journal: len(journal.current()) == 2)
        assert fleet.service.end() == 0
    return folder / "state"


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[FaultyDisk]:
    disk = FaultyDisk(tmp_path / "disk", tmp_path / "faulty" / "state")
    yield disk
    disk.close()


def calls_of_a_round(fleet: Fleet, disk: FaultyDisk, rounds: int = 3) -> int:
    """How many calls a round makes, the fleet being undisturbed."""
    done = fleet.completed()
    fleet.wait_for(done + 1)
    before, first = disk["count"], fleet.completed()
    fleet.wait_for(first + rounds)
    return (disk["count"] - before) // (fleet.completed() - first)


def assert_same_models(tmp_path: Path, faulty: Fleet, started: Path, rounds: int) -> None:
    """The history of the first rounds is that of a fleet which nothing disturbs."""
    with Mosquitto(tmp_path / "calm-broker") as broker, Fleet(tmp_path / "calm", broker, started) as calm:
        calm.wait_for(rounds, PATIENCE_S + 5 * rounds)
    assert faulty.history(rounds) == calm.history(rounds)


@pytest.mark.parametrize(
    ("stride", "errors", "calls"),
    [
        pytest.param(27, ERRORS[:1], 1, id="quick"),
        pytest.param(1, ERRORS, 1, marks=pytest.mark.slow, id="once"),
        pytest.param(4, ERRORS, 25, marks=pytest.mark.slow, id="a-while"),
    ],
)
def test_each_call_of_a_round_may_fail(
    tmp_path: Path, mosquitto: Mosquitto, started: Path, faulty: FaultyDisk, stride: int, errors: list[int], calls: int
) -> None:
    with Fleet(tmp_path / "faulty", mosquitto, started, **faulty.environment) as fleet:
        number = calls_of_a_round(fleet, faulty)
        assert number > 30, "the calls of the service are not seen"
        for error in errors:
            for at in range(0, number, stride):
                before = fleet.completed()
                faulty.fail(error, after=at, calls=calls, torn=bool(at % 2))
                wait_until(lambda: faulty["failed"] >= calls, PATIENCE_S, lambda: fleet.service.log.read_text()[-2000:])
                fleet.wait_for(before + 1)
        rounds = fleet.completed()
    assert_same_models(tmp_path, fleet, started, rounds)


@pytest.mark.slow
@pytest.mark.parametrize("error", ERRORS)
def test_a_disk_that_fails_for_seconds_stops_nothing_and_changes_nothing(
    tmp_path: Path, mosquitto: Mosquitto, started: Path, faulty: FaultyDisk, error: int
) -> None:
    with Fleet(tmp_path / "faulty", mosquitto, started, **faulty.environment) as fleet:
        number = calls_of_a_round(fleet, faulty, 1)
        for at in (0, number // 3, 2 * number // 3):  # in different phases of a round
            before = fleet.completed()
            faulty.fail(error, after=at)
            wait_until(lambda: faulty["failed"] > 0, PATIENCE_S)
            time.sleep(3)
            faulty.mend()
            fleet.wait_for(before + 2)
        rounds = fleet.completed()
        assert "nothing is lost, it is tried again" in fleet.service.log.read_text()
    assert_same_models(tmp_path, fleet, started, rounds)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [4, 35])
def test_a_journal_that_another_process_locks_stops_nothing_and_changes_nothing(
    tmp_path: Path, mosquitto: Mosquitto, started: Path, seconds: float
) -> None:
    with Fleet(tmp_path / "faulty", mosquitto, started) as fleet:
        fleet.wait_for(1)
        for _ in range(2):
            locking = sqlite3.connect(tmp_path / "faulty" / "state" / "journal.db", isolation_level=None, timeout=30)
            locking.execute("BEGIN IMMEDIATE")
            locked = fleet.completed()
            time.sleep(seconds)
            wait_until(lambda: "database is locked; nothing is lost" in fleet.service.log.read_text(), PATIENCE_S)
            assert fleet.completed() == locked
            locking.execute("ROLLBACK")
            locking.close()
            fleet.wait_for(locked + 2)
        rounds = fleet.completed()
    assert_same_models(tmp_path, fleet, started, rounds)


def test_what_a_command_asks_for_is_done_once_the_disk_works_again(
    tmp_path: Path, mosquitto: Mosquitto, started: Path, faulty: FaultyDisk
) -> None:
    with Fleet(tmp_path / "faulty", mosquitto, started, **faulty.environment) as fleet:
        fleet.wait_for(1)
        journal = Journal(tmp_path / "faulty" / "state" / "journal.db")
        faulty.fail(errno.ENOSPC)
        number = journal.ask("revoke", "pi-1")  # the writer is this process, whose disk is fine
        wait_until(lambda: faulty["failed"] > 0, PATIENCE_S)
        assert journal.answer_of(number) is None
        faulty.mend()
        wait_until(lambda: journal.answer_of(number) == Answer("revoked"), PATIENCE_S)
        assert [row.id for row in journal.devices() if row.revoked] == ["pi-1"]
        last = journal.last_round()
        invited = {invitation.device for invitation in journal.invitations(last.number)}
        assert "pi-1" not in invited or journal.has_update("pi-1", last.number)  # what was accepted before stays
        journal.close()
