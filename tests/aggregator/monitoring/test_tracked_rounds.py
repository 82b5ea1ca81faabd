"""Rounds of a fleet as trackers get them: from the journal, and from a service that is killed and started again."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from aggregator.config.fleet import FleetConfig, load_fleet_config
from aggregator.monitoring.tracked_rounds import fleet_trackers, follow_fleet, records_after
from aggregator.storage.journal import Journal
from core.errors import ConfigError
from tests.aggregator.journals import a_model, a_round, an_update, asked
from tests.aggregator.running import NAMES, Devices, fleet
from tests.aggregator.scripted import FLEET, write_fleet
from tests.brokers import Broker
from transport.config import BrokerConfig


def a_fleet(folder: Path, track: str = "") -> FleetConfig:
    """Two rounds were fused, one was abandoned, one is open."""
    config = load_fleet_config(write_fleet(folder, BrokerConfig(), ["a", "b", "c"], monitor=f"track = [{track}]"))
    config.state.mkdir()
    journal = Journal(config.state / "journal.db")
    with journal.transaction():
        journal.add_model(a_model("m"))
        journal.open_round(a_round(1, "closed", opened=10.0, closed=14.0), asked("a", "b", "c"))
        journal.add_update(an_update("a", size=30, metrics={"accuracy": 0.5, "train_loss": 1.0}))
        journal.add_update(an_update("b", size=20, metrics={"accuracy": 1.0}))
        made = {"accuracy": 0.75, "loss": 0.5, "extractor_round": 1.0}
        journal.add_model(a_model("n", number=1, origin="fused", metrics=made))
        devices = {"a": {"screened": None}, "b": {"screened": "far away"}}
        journal.add_report(1, {"seconds": {"average": 0.25}, "devices": devices})
        journal.open_round(a_round(2, "abandoned"), asked("a"))
        journal.open_round(a_round(3, "closed", opened=20.0, closed=21.0), asked("a", model="n"))
        journal.open_round(a_round(4), asked("a", model="n"))
    journal.close()
    return config


def test_a_record_has_what_the_journal_knows(tmp_path: Path) -> None:
    journal = Journal(a_fleet(tmp_path).state / "journal.db", read_only=True)
    first, second = records_after(journal, 0)
    assert (first.round, first.time) == (1, 14.0)
    assert first.metrics == {
        "accuracy/mlp.fp32": 0.75,
        "loss/mlp.fp32": 0.5,
        "own_accuracy/mlp.fp32": 0.75,
        "own_worst/mlp.fp32": 0.5,
        "own_best/mlp.fp32": 1.0,
        "devices/mlp.fp32": 2.0,
        "bytes_up/mlp.fp32": 50.0,
        "bytes_down/mlp.fp32": 200.0,
        "devices/asked": 3.0,
        "devices/lost": 1.0,
        "devices/excluded": 1.0,
        "bytes/up": 50.0,
        "bytes/down": 200.0,
        "seconds/round": 4.0,
        "seconds/average": 0.25,
    }
    assert (second.round, second.metrics["devices/lost"]) == (3, 1.0)
    assert [record.round for record in records_after(journal, 1)] == [3]
    assert records_after(journal, 3) == []


def test_folders_are_below_the_files_own(tmp_path: Path) -> None:
    config = a_fleet(tmp_path, '"tensorboard:runs", "mlflow:http://127.0.0.1:9"')
    assert [str(t) for t in fleet_trackers(config)] == [f"tensorboard:{tmp_path}/runs", "mlflow:http://127.0.0.1:9"]


def test_what_cannot_be_is_refused_with_the_file(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"fleet.toml \[monitor\]: 'track': no tracker 'wand'; known: tensorboard mlflow$"
    ):
        load_fleet_config(write_fleet(tmp_path, BrokerConfig(), ["a"], monitor='track = ["wand:b"]'))


def test_a_journal_of_before_is_tracked_from_its_first_round(tmp_path: Path) -> None:
    config = a_fleet(tmp_path, '"tensorboard:runs"')
    with follow_fleet(config, fleet_trackers(config)):
        pass
    assert steps(tmp_path / "runs" / FLEET) == [1, 3]


def steps(folder: Path) -> list[int]:
    """The rounds that TensorBoard finds."""
    return [event.step for event in EventAccumulator(str(folder)).Reload().Scalars("seconds/round")]


@pytest.mark.slow
def test_a_service_is_tracked_through_kills_and_an_mlflow_that_hangs(
    tmp_path: Path, broker: Broker, started: Path
) -> None:
    """Slow: a service and three devices on both brokers; six rounds, one kill, one restart."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # connects, and never answers
        away = f"mlflow:http://127.0.0.1:{deaf.getsockname()[1]}"
        tables = {
            "monitor": f'track = ["tensorboard:runs", "{away}"]',
            "round": "!rounds = 6\nmin_devices = 3\ndeadline_s = 60",
        }
        with fleet(tmp_path, broker, started, **tables) as service, Devices(broker.config, NAMES):
            service.start()
            service.until(lambda journal: journal.completed() >= 2)
            service.end(signal.SIGKILL)
            service.start("--until-done")
            assert service.wait(600) == 0
            log = service.log.read_text()
    assert steps(tmp_path / "runs" / FLEET) == [1, 2, 3, 4, 5, 6]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [FLEET]
    assert f"tracker {away} does not answer" in log
