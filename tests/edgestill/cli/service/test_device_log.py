"""`edgestill device log`: what is printed, and why nothing can be."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from aggregator.config.fleet import FleetConfig, load_fleet_config
from aggregator.downlink.log_requests import TAILS
from aggregator.status import only_service
from aggregator.storage.journal import Journal
from tests.aggregator.scripted import write_fleet
from tests.edgestill.cli.typed import run
from tests.transport.events import eventually
from transport.config import BrokerConfig


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = write_fleet(tmp_path, BrokerConfig(), ["pi-0", "pi-1"])
    state = load_fleet_config(path).state
    state.mkdir()
    Journal(state / "journal.db").close()
    return path


def answers(config: FleetConfig, **facts: Any) -> threading.Thread:
    """A service that answers the one command, and the device's tail beside it."""

    def serve() -> None:
        journal = Journal(config.state / "journal.db")
        eventually(lambda: bool(journal.commands()))
        (command,) = journal.commands()
        asked.append(command.argument)
        with journal.transaction():
            journal.answer(command.id, "1000")
        if facts:
            tail = {"number": 1000, "time": 1.0, "withheld": False, "lines": [], **facts}
            (config.state / TAILS).mkdir()
            (config.state / TAILS / "pi-0.json").write_text(json.dumps(tail))
        journal.close()

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


asked: list[str] = []


def test_the_lines_are_printed(path: Path, capsys: pytest.CaptureFixture) -> None:
    config = load_fleet_config(path)
    asked.clear()
    with only_service(config.state):
        service = answers(config, lines=["12:00:00 INFO    agent: one", "two [red]x"])
        code, out, _ = run(capsys, "device", "log", "pi-0", "-n", "7", "--config", path)
        service.join()
    assert (code, out.splitlines()) == (0, ["12:00:00 INFO    agent: one", "two [red]x"])
    assert asked == ['{"device": "pi-0", "lines": 7}']


@pytest.mark.parametrize(
    ("facts", "said"),
    [({}, "has not answered within 0 s"), ({"withheld": True}, "agent.toml says log_lines = 0")],
)
def test_a_device_that_says_nothing_is_an_error_in_one_line(
    path: Path, capsys: pytest.CaptureFixture, facts: dict[str, Any], said: str
) -> None:
    config = load_fleet_config(path)
    with only_service(config.state):
        service = answers(config, **facts)
        code, _, err = run(capsys, "device", "log", "pi-0", "--wait", "120" if facts else "0", "--config", path)
        service.join()
    assert (code, err.count("\n")) == (7, 1)
    assert said in err


def test_without_a_service_nothing_is_asked(path: Path, capsys: pytest.CaptureFixture) -> None:
    code, _, err = run(capsys, "device", "log", "pi-0", "--config", path)
    assert (code, "the aggregator is not running" in err) == (7, True)
    assert run(capsys, "device", "log", "pi-9", "--config", path)[0] == 3
    assert Journal(load_fleet_config(path).state / "journal.db").commands() == []
