"""What a simulation is told is checked once, each setting by its own words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.errors import ConfigError
from edge_agent.training.params import LocalTraining
from fleet.simulation.config import SimulationConfig
from fleet.virtual.config import VirtualTime


def config(**changes: Any) -> SimulationConfig:
    usual: dict[str, Any] = {
        "dataset": "digits",
        "devices": 3,
        "prototypes": ("cnn:fp32",),
        "training": LocalTraining(lr=0.1, batch_size=8, epochs=1),
    }
    return SimulationConfig(**(usual | changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prototypes": ("cnn",)}, "prototype 'cnn': give its precision too, such as cnn:fp32"),
        ({"count_bins": 0}, "--count-bins 0; give at least 2"),
        ({"count_bins": 1}, "--count-bins 1; give at least 2"),
        ({"count_epsilon": 0.0}, "--count-epsilon 0; give at least 1e-06"),
        ({"processes": 0}, "--processes 0; give at least 1"),
        ({"validation_size": -1}, "--validation-size -1; give at least 0"),
        (
            {"recipe": "feddf", "update": "predictor"},
            "recipe feddf distills from whole models",
        ),
        (
            {"recipe": "feddistill", "update": "predictor"},
            "recipe feddistill has devices send logits",
        ),
        (
            {"fusion": {"personal": True}, "update": "predictor"},
            "personal = true, but devices that send predictor keep models of their own already; leave personal out",
        ),
        ({"fusion": {"personal": True}, "recipe": "local"}, "devices that send none keep models of their own already"),
        ({"fusion": {"personal_weight": 2.0}}, "personal_weight goes with personal = true"),
        ({"workers": -1}, "--workers -1; give at least 0"),
        ({"score_every": 0}, "--score-every 0; give at least 1"),
        ({"virtual": VirtualTime(boards=("rpi-4",) * 3, buffer=4)}, "--buffer 4: there are 3 devices"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_in_its_own_words(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config(**changes)


@pytest.mark.parametrize(
    "virtual", [None, VirtualTime(boards=("rpi-4",) * 3, deadline_s=60.0)], ids=["real", "virtual"]
)
def test_a_configuration_comes_back_from_json(virtual: VirtualTime | None) -> None:
    made = config(virtual=virtual, source_classes=(1, 2))
    assert SimulationConfig.from_json(json.loads(json.dumps(made.to_json()))) == made
