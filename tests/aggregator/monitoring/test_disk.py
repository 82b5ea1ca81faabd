"""The bytes of a state folder: models that are kept, updates of the newest rounds, the journal."""

from pathlib import Path

import pytest

from aggregator.config.fleet import load_fleet_config
from aggregator.monitoring.disk import disk_use
from aggregator.storage.journal import Journal
from tests.aggregator.journals import a_model, a_round, an_update
from tests.aggregator.scripted import write_fleet
from transport.config import BrokerConfig

pytestmark = pytest.mark.light


def test_what_is_kept_is_counted(tmp_path: Path) -> None:
    config = load_fleet_config(write_fleet(tmp_path, BrokerConfig(), ["a"]))
    config.state.mkdir(exist_ok=True)
    journal = Journal(config.state / "journal.db")
    with journal.transaction():
        for number in range(1, 6):
            journal.open_round(a_round(number, "closed"), [])
            journal.add_update(an_update("a", number, size=7))
            journal.add_model(a_model(f"m{number}", number=number, size=100))
        journal.prune([1, 2])
    found = disk_use(config, journal)
    assert (found["models"], found["updates"]) == (300, 7 * (config.keep_rounds + 1))
    assert found["journal"] >= (config.state / "journal.db").stat().st_size
    assert 0 < found["free"] <= found["size"]
