"""`edgestill device set` and `show`, with a journal and without a service."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from aggregator.config.fleet import load_fleet_config
from aggregator.downlink.device_settings import DesiredSettings
from aggregator.status import only_service
from aggregator.storage.journal import Journal
from tests.aggregator.scripted import FLEET, key_of, write_fleet
from tests.docs.test_docs import names_in, table_rows
from tests.edgestill.cli.typed import run
from tests.transport.events import eventually
from transport.config import BrokerConfig
from wire.ids import AGGREGATOR
from wire.messages import Reported


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = write_fleet(tmp_path, BrokerConfig(), ["pi-0", "pi-1"])
    state = load_fleet_config(path).state
    state.mkdir()
    Journal(state / "journal.db").close()
    return path


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["pi-2", "train.threads=2"], "no device 'pi-2'"),
        (["pi-0", "train.thread=2"], "train.thread: no such setting; did you mean 'train.threads'?"),
        (["pi-0", "train.threads=x"], "train.threads is 'x', expected a whole number"),
        (["pi-0", "broker.host=x"], "broker.host: which broker it calls is for agent.toml to say, on the board"),
        (["pi-0", "train.threads"], "'train.threads': write KEY=VALUE"),
        (["pi-0"], "no setting given"),
    ],
)
def test_what_cannot_be_set_is_told_before_anything_is_asked(
    config: Path, capsys: pytest.CaptureFixture, args: list[str], said: str
) -> None:
    code, _, err = run(capsys, "device", "set", *args, "--config", config)
    assert (code, err.count("\n")) == (3, 1)
    assert said in err
    assert Journal(load_fleet_config(config).state / "journal.db").commands() == []


def test_settings_wait_for_an_aggregator_that_is_down(config: Path, capsys: pytest.CaptureFixture) -> None:
    code, out, _ = run(capsys, "device", "set", "pi-0", "train.threads=2", "--unset", "log.level", "--config", config)
    assert code == 0
    assert "is not running: it will set when it starts" in " ".join(out.split())
    (command,) = Journal(load_fleet_config(config).state / "journal.db").commands()
    assert json.loads(command.argument) == {"device": "pi-0", "changes": {"train.threads": "2", "log.level": None}}


def serve(config: Path, reported: dict, stop: threading.Event) -> None:
    """What the service does with one command, and what a device then says."""
    loaded = load_fleet_config(config)
    journal = Journal(loaded.state / "journal.db")
    desired = DesiredSettings(lambda *_: True, key=key_of(AGGREGATOR), fleet=FLEET, journal=journal)
    with only_service(loaded.state):
        (loaded.state / "up").touch()
        while not stop.is_set():
            for command in journal.commands():
                desired.run(command, 100.0)
                desired.heard("pi-0", Reported(version=100, **reported))
                desired.keep()
            time.sleep(0.01)
    journal.close()


@pytest.mark.parametrize(
    ("reported", "code", "said"),
    [
        ({"status": "applied", "settings": {"train.threads": "2"}}, 0, "pi-0 has settings 100: train.threads=2"),
        ({"status": "applied", "refused": {"train.threads": "too many"}}, 7, "pi-0: too many"),
        ({"status": "rolled-back", "reason": "out of memory"}, 7, "pi-0: out of memory"),
    ],
)
def test_what_the_device_says_is_waited_for_and_listed(
    config: Path, capsys: pytest.CaptureFixture, reported: dict, code: int, said: str
) -> None:
    stop = threading.Event()
    service = threading.Thread(target=serve, args=(config, reported, stop))
    service.start()
    try:
        assert eventually((load_fleet_config(config).state / "up").exists)
        found = run(capsys, "device", "set", "pi-0", "train.threads=2", "--config", config)
    finally:
        stop.set()
        service.join(60)
    assert (found[0], said in found[1] + found[2]) == (code, True), found
    _, out, _ = run(capsys, "device", "show", "pi-0", "--config", config, "--json")
    facts = json.loads(out)
    assert facts["desired"] == {"version": 100, "settings": {"train.threads": "2"}}
    assert facts["reported"]["status"] == reported["status"]
    _, out, _ = run(capsys, "device", "show", "pi-0", "--config", config)
    assert f"reported.status        {reported['status']}\n" in out
    _, out, _ = run(capsys, "device", "list", "--config", config)
    assert facts["settings"].split()[-1] in out.partition("pi-0")[2]  # a narrow terminal breaks it in two


def test_the_page_lists_the_settable_keys() -> None:
    from edge_agent.remote_settings.allowed import SETTABLE

    rows = table_rows("docs/provisioning.md", "Settings")
    assert sorted(name for row in rows for name in names_in(row[0])) == sorted(SETTABLE)
