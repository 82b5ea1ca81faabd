"""Fixtures of the aggregator's tests."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aggregator.conductor import Conductor
from aggregator.config.fleet import load_fleet_config
from aggregator.downlink.publisher import Publisher
from aggregator.rounds.events import AboutHeard, StateHeard, Tick
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.worker.supervisor import WorkerProcess
from tests.aggregator.journals import a_model, a_round, an_update, asked
from tests.aggregator.running import NAMES, Aggregator
from tests.aggregator.scripted import FLEET, key_of, write_fleet
from tests.brokers import (
    Mosquitto,
    broker,  # noqa: F401
    mosquitto,  # noqa: F401
)
from transport.config import BrokerConfig
from wire.ids import AGGREGATOR


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder with the first models in it: building them takes seconds."""
    folder = tmp_path_factory.mktemp("started")
    with Mosquitto(folder / "mosquitto") as server, Aggregator(write_fleet(folder, server.config, NAMES)) as first:
        first.start()
        first.until(lambda journal: len(journal.current()) == 2)
        assert first.end() == 0
    return folder / "state"


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


@pytest.fixture
def asynchronous(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Conductor]:
    """Asynchronous rounds with a buffer of two; a, b and c are online and have jobs. The worker never answers."""
    monkeypatch.setattr(sys, "executable", "/bin/cat")
    config = load_fleet_config(
        write_fleet(
            tmp_path,
            BrokerConfig(),
            ["a", "b", "c"],
            round='!mode = "async"\nbuffer = 2\nmax_staleness = 3\ndeadline_s = 100',
            prototypes='!names = ["mlp:fp32"]',
        ),
        environ={},
    )
    config.state.mkdir()
    journal, blobs = Journal(config.state / "journal.db"), Blobs(config.state / "blobs")
    journal.add_model(a_model(digest=blobs.put(b"first"), size=5))
    publisher = Publisher(lambda *_: True, key=key_of(AGGREGATOR), fleet=FLEET, blobs=blobs, journal=journal)
    worker = WorkerProcess({}, lambda: None)
    made = Conductor(config, journal=journal, blobs=blobs, worker=worker, publisher=publisher, clock=lambda: 5.0)
    for device in "abc":
        made.feed(AboutHeard(device, "mlp:fp32"))
        made.feed(StateHeard(device, "online", 1))
    made.feed(Tick(5.0))
    yield made
    worker.close()
