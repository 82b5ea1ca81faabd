"""Over MQTT the devices' own models are scored from the disks, and come to the numbers of a run in memory."""

from dataclasses import replace
from pathlib import Path

import pytest

from fleet.mqtt.fleet import MqttSimulation
from fleet.simulation.simulation import Simulation
from tests.e2e.fleets import config, toy
from transport.config import BrokerConfig
from transport.embedded import EmbeddedBroker


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"recipe": "local"},
        {"update": "predictor"},
        {"fusion": {"personal": True}},
    ],
    ids=["state", "none", "kept", "personal"],
)
def test_own_accuracies_are_those_of_the_same_run_in_memory(tmp_path: Path, changes: dict) -> None:
    settings = config(2, score_devices="every", **changes)
    with EmbeddedBroker() as broker, MqttSimulation(settings, toy(), tmp_path, BrokerConfig(port=broker.port)) as fleet:
        over_mqtt = list(fleet.rounds())
    memory = Simulation(replace(settings, transport="memory"), toy())
    in_memory = [memory.run_round(n) for n in (1, 2)]
    assert "own_accuracy" not in over_mqtt[0].devices["sim-0"]  # it trains on while the round is told
    for name, facts in in_memory[-1].devices.items():
        assert facts["own_accuracy"] is not None
        for key in ("own_accuracy", "whole_accuracy"):
            assert over_mqtt[-1].devices[name][key] == facts[key]
    for name, fused in in_memory[-1].prototypes.items():
        assert over_mqtt[-1].prototypes[name].own_accuracy == fused.own_accuracy
        assert over_mqtt[-1].prototypes[name].device_accuracy == fused.device_accuracy
