"""Fixtures of the aggregator's tests."""

from pathlib import Path

import pytest

from tests.aggregator.running import NAMES, Aggregator
from tests.aggregator.scripted import write_fleet
from tests.brokers import (
    Mosquitto,
    broker,  # noqa: F401
    mosquitto,  # noqa: F401
)


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder with the first models in it: building them takes seconds."""
    folder = tmp_path_factory.mktemp("started")
    with Mosquitto(folder / "mosquitto") as server, Aggregator(write_fleet(folder, server.config, NAMES)) as first:
        first.start()
        first.until(lambda journal: len(journal.current()) == 2)
        assert first.end() == 0
    return folder / "state"
