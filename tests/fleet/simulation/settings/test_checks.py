"""What a simulation cannot be, each in its own words."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import ConfigError
from fleet.simulation.config import SimulationConfig
from fleet.virtual.config import VirtualTime

pytestmark = pytest.mark.light


def config(**changes: Any) -> SimulationConfig:
    return SimulationConfig(**({"dataset": "digits", "devices": 3, "prototypes": ("cnn:fp32",)} | changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prototypes": ("cnn",)}, "prototype 'cnn': give its precision too, such as cnn:fp32"),
        ({"compute": "gpu9"}, "unknown compute device 'gpu9'; give auto, cpu, cuda, cuda:1 or mps"),
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
        ({"fusion": {"personal_weight": 2.0}}, "personal_weight requires personal = true"),
        ({"workers": -1}, "--workers -1; give at least 0"),
        ({"score_every": 0}, "--score-every 0; give at least 1"),
        ({"prototypes": ()}, "no prototypes; give at least one"),
        ({"prototypes": ("cnn:fp32", "cnn:fp32")}, "prototype given twice in cnn:fp32,cnn:fp32"),
        ({"prototypes": ("cnn:fp32", "mlp:fp32", "cnn:w1", "mlp:w1")}, "3 devices for 4 prototypes"),
        ({"fraction": 0.0}, "--fraction 0; give a number above 0 and at most 1"),
        ({"fraction": 1.5}, "fraction 1.5; give a number above 0 and at most 1"),
        ({"source_classes": (3, 10_000)}, "--source-classes 10000; give at most 9,999"),
        ({"transport": "udp"}, "transport 'udp'; known: memory mqtt"),
        ({"score_devices": "first"}, "--score-devices 'first'; known:"),
        ({"engine": "proceses"}, "engine 'proceses'; known: .*did you mean 'processes'"),
        ({"address": "10.0.0.1:6379"}, "--address 10.0.0.1:6379 requires --engine ray"),
        ({"attack": "faulty:4"}, "--attack: 4 attackers, but 3 devices; give fewer"),
        ({"virtual": VirtualTime(boards=("rpi-4",) * 2)}, "2 boards for 3 devices; give as many"),
        ({"virtual": VirtualTime(boards=("rpi-4",) * 3), "transport": "mqtt"}, "virtual time needs --transport memory"),
        ({"virtual": VirtualTime(boards=("rpi-4",) * 3, buffer=4)}, "--buffer 4: there are 3 devices"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_in_its_own_words(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config(**changes)


def test_what_can_just_be_is_taken() -> None:
    config(devices=1, fraction=1.0, workers=0, count_bins=2, source_classes=(9999,))
    config(engine="ray", address="10.0.0.1:6379")
    config(virtual=VirtualTime(boards=("rpi-4",) * 3, buffer=3))
