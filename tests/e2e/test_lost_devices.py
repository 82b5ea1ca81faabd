"""Boards whose training diverges, over a real broker: the round does not wait for them, and they are named."""

from dataclasses import replace
from pathlib import Path

import pytest

from fleet.data import Dataset
from fleet.mqtt.fleet import MqttSimulation
from fleet.simulation.config import SimulationConfig
from fleet.simulation.device import make_devices
from fleet.simulation.simulation import Simulation
from tests.brokers import Broker
from tests.e2e.fleets import config, toy

WHY = "training diverged: the gradient is not finite"


def broken(settings: SimulationConfig, numbers: tuple[int, ...]) -> Dataset:
    """The toy dataset, but for what the sensors of these devices have seen."""
    dataset = toy()
    x, devices = dataset.x_train.copy(), make_devices(settings, dataset)
    for number in numbers:
        x[devices[number].rows] = 1e30
    return replace(dataset, x_train=x)


def settings_of(rounds: int) -> SimulationConfig:
    settings = config(rounds, devices=3, prototypes=("mlp:fp32",))
    return replace(settings, training=replace(settings.training, clip=1.0))


@pytest.mark.broker
@pytest.mark.parametrize("broker", ["mosquitto"], indirect=True)
def test_a_round_does_not_wait_for_a_board_that_has_given_up(tmp_path: Path, broker: Broker) -> None:
    settings = settings_of(2)
    dataset = broken(settings, (1,))
    with MqttSimulation(settings, dataset, tmp_path / "fleet", broker.config) as fleet:
        real = list(fleet.rounds())
        log = (tmp_path / "fleet" / "aggregator.log").read_text()
    assert [r.lost for r in real] == [{"sim-1": WHY}, {"sim-1": WHY}]
    assert max(r.seconds for r in real) < 300  # the deadline is after an hour
    assert f"device 'sim-1': round 1: {WHY}" in log
    assert f"round 1: 1 of 3 devices lost: sim-1: {WHY}; where training diverges" in log
    simulation = Simulation(settings, dataset)
    here = [simulation.run_round(n) for n in (1, 2)]
    assert [r.lost for r in here] == [r.lost for r in real]
    assert [p.accuracy for r in here for p in r.prototypes.values()] == [
        p.accuracy for r in real for p in r.prototypes.values()
    ]


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("broker", ["mosquitto"], indirect=True)
def test_a_round_that_most_have_given_up_is_told_at_once(tmp_path: Path, broker: Broker) -> None:
    settings = settings_of(1)
    with MqttSimulation(settings, broken(settings, (0, 2)), tmp_path / "fleet", broker.config) as fleet:
        result = next(iter(fleet.rounds()))
        log = (tmp_path / "fleet" / "aggregator.log").read_text()
    assert (result.lost, result.asked) == ({"sim-0": WHY, "sim-2": WHY}, 3)
    assert "accuracy" not in result.to_json()["prototypes"]["mlp:fp32"]
    assert "ERROR" in log
    assert f"round 1: 2 of 3 devices lost: sim-0, sim-2: {WHY}" in log
