"""Fixtures of the aggregator's tests."""

from pathlib import Path

import pytest

from tests.aggregator.running import Aggregator
from tests.aggregator.scripted import write_fleet
from tests.brokers import Mosquitto, broker, mosquitto  # noqa: F401


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder of three devices with the first models in it: building them takes seconds."""
    folder, names = tmp_path_factory.mktemp("started"), ["pi-0", "pi-1", "pi-2"]
    with Mosquitto(folder / "mosquitto") as own, Aggregator(write_fleet(folder, own.config, names)) as first:
        first.start()
        first.until(lambda journal: len(journal.current()) == 2)
        assert first.end() == 0
    return folder / "state"
