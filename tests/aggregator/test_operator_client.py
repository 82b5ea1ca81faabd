"""A command reaches the service through the journal, and its answer comes back."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.config.fleet import FleetConfig, load_fleet_config
from aggregator.operator_client import ask_service
from aggregator.status import only_service
from aggregator.storage.journal import Journal
from core.errors import EdgestillError, RoundError
from tests.firmware_configs.fleets import FLEET
from tests.transport.events import eventually

pytestmark = pytest.mark.light


@pytest.fixture
def fleet(tmp_path: Path) -> FleetConfig:
    (tmp_path / "fleet.toml").write_text(FLEET + '[devices]\nkeys_dir = "keys"\n')
    (tmp_path / "keys").mkdir()
    found = load_fleet_config(tmp_path / "fleet.toml", environ={})
    found.state.mkdir()
    return found


def serve_one(fleet: FleetConfig, text: str, *, failed: bool = False) -> threading.Thread:
    def serve() -> None:
        with closing(Journal(fleet.state / "journal.db")) as journal:
            assert eventually(lambda: bool(journal.commands()))
            journal.answer(journal.commands()[0].id, text, failed=failed)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_without_a_journal_or_a_service_it_is_said_so(fleet: FleetConfig) -> None:
    with pytest.raises(EdgestillError):
        ask_service(fleet, "pause")
    Journal(fleet.state / "journal.db").close()
    assert ask_service(fleet, "pause") == "the aggregator is not running: it will pause when it starts"


def test_the_answer_of_a_service_comes_back(fleet: FleetConfig) -> None:
    Journal(fleet.state / "journal.db").close()
    with only_service(fleet.state):
        service = serve_one(fleet, "paused")
        assert ask_service(fleet, "pause", wait_s=120) == "paused"
        service.join()
        service = serve_one(fleet, "no round is open", failed=True)
        with pytest.raises(RoundError, match="no round is open"):
            ask_service(fleet, "skip", wait_s=120)
        service.join()
        assert ask_service(fleet, "stop", wait_s=0.1) == "asked to stop; the aggregator is busy and does it next"
