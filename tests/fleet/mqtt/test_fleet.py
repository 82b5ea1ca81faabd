"""Files of a fleet over MQTT, and what its journal says of a round; processes are started in tests/e2e."""

from __future__ import annotations

import math
import socket
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aggregator.config.fleet import load_fleet_config
from aggregator.storage.journal import Journal
from aggregator.storage.rows import Refusal
from core.errors import ConfigError, TransportError
from core.settings import replace as settings_replace
from edge_agent.config import read_agent_config
from fleet.mqtt.fleet import MqttSimulation
from fleet.simulation.config import SimulationConfig
from tests.aggregator.journals import a_model, a_round, an_update, asked, digest
from tests.fleet.simulation.test_simulation import CONFIG, toy
from transport.config import BrokerConfig

SMALL = replace(CONFIG, devices=3, prototypes=("mlp:fp32",))
BROKER = BrokerConfig(host="127.0.0.1", port=18830)


def fleet(folder: Path, config: SimulationConfig = SMALL, broker: BrokerConfig = BROKER) -> MqttSimulation:
    return MqttSimulation(config, toy(), folder / "fleet", broker)


def test_aggregator_and_agents_are_told_what_the_simulation_is(tmp_path: Path) -> None:
    training = replace(SMALL.training, lr=0.25, momentum=0.5, prox=0.125)
    made = fleet(tmp_path, replace(SMALL, training=training, seed=11, recipe="fedavgm", update="predictor"))
    made.write_files()
    told = load_fleet_config(made.folder / "aggregator" / "fleet.toml", environ={})
    assert (told.seed, told.fusion.recipe.name, told.round.update, told.round.rounds) == (11, "fedavgm", "predictor", 3)
    assert (told.hyper.lr, told.hyper.momentum, told.hyper.extra["prox"], told.hyper.epochs) == (0.25, 0.5, 0.125, 2)
    assert set(told.devices) == {"sim-0", "sim-1", "sim-2"}
    agent = read_agent_config(made.folder / "sim-1" / "agent.toml", environ={})
    assert (agent.device, agent.prototype, agent.broker.port) == ("sim-1", "mlp:fp32", 18830)


def test_every_device_has_its_own_samples_on_its_disk(tmp_path: Path) -> None:
    made = fleet(tmp_path)
    made.write_files()
    total = 0
    for device in made.devices:
        with np.load(made.folder / device.id / "data.npz") as data:
            np.testing.assert_array_equal(data["y"], device.y.numpy())
            total += len(data["y"])
    assert total == 180
    assert not (made.folder / "aggregator" / "source.npz").exists()  # the recipe needs none


def test_what_cannot_be_is_told_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--floats requires --transport memory"):
        fleet(tmp_path, replace(SMALL, floats="fp16"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        here = fleet(tmp_path, broker=settings_replace(BROKER, port=port))
        (here.folder / "aggregator").mkdir(parents=True)
        with pytest.raises(ConfigError, match="holds an earlier fleet"):
            here.__enter__()
    with pytest.raises(TransportError, match=rf"no broker at 127\.0\.0\.1:{port}: connection refused; start one"):
        here.__enter__()


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """Round 1 asked three devices; one has answered."""
    (tmp_path / "fleet" / "aggregator" / "state").mkdir(parents=True)
    made = Journal(tmp_path / "fleet" / "aggregator" / "state" / "journal.db")
    made.add_model(a_model())
    made.open_round(a_round(1), asked("sim-0", "sim-1", "sim-2"))
    made.add_update(an_update("sim-0", 1, size=70))
    return made


def test_a_round_is_hopeless_when_nobody_is_awaited_and_most_are_lost(tmp_path: Path, journal: Journal) -> None:
    made, row = fleet(tmp_path), a_round(1)
    assert not made._is_hopeless(row)
    journal.add_refusal(Refusal(device="sim-1", transfer="t", round=1, reason="too large", time=1.0))
    assert made._lost(journal, row) == {"sim-1": "too large"}
    assert not made._is_hopeless(row)  # sim-2 is still awaited
    journal.add_refusal(Refusal(device="sim-2", transfer="t", round=1, reason="diverged", time=1.0))
    assert made._is_hopeless(row)


def test_who_was_silent_is_lost_once_the_round_is_over(tmp_path: Path, journal: Journal) -> None:
    lost = fleet(tmp_path)._lost(journal, a_round(1, "closed"))
    assert lost == {"sim-1": "no update came in time", "sim-2": "no update came in time"}


def test_a_result_has_scores_of_the_fused_model_and_bytes_of_the_messages(tmp_path: Path, journal: Journal) -> None:
    made = fleet(tmp_path, replace(SMALL, score_devices="never"))
    row = a_round(1, "closed", opened=10.0, closed=14.0)
    nothing = made._result(row, last=False).prototypes["mlp:fp32"]
    assert math.isnan(nothing.accuracy)
    journal.add_model(
        a_model("fused", number=1, origin="fused", parents=(digest("m"),), metrics={"accuracy": 0.75, "loss": 0.5})
    )
    result = made._result(row, last=True)
    told = result.prototypes["mlp:fp32"]
    assert (told.accuracy, told.loss, told.devices, told.bytes_up) == (0.75, 0.5, 1, 70)
    assert told.bytes_down == 3 * 100  # the start model, to everybody who was asked
    assert (result.seconds, sorted(result.lost)) == (4.0, ["sim-1", "sim-2"])


def test_updates_are_told_once_each_and_no_journal_is_no_round(tmp_path: Path, journal: Journal) -> None:
    made, heard, seen = fleet(tmp_path), list[str](), set[tuple[int, str]]()
    for _ in range(2):
        row = made._look(1, seen, heard.append)
    assert row is not None
    assert (row.number, heard) == (1, ["sim-0"])
    assert made._look(2, seen, heard.append) is None
    (tmp_path / "elsewhere").mkdir()
    assert fleet(tmp_path / "elsewhere")._look(1, set(), heard.append) is None
