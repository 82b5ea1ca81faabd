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


def test_what_cannot_be_is_refused_where_a_program_makes_it() -> None:
    with pytest.raises(ConfigError, match="--workers -1; give at least 0"):
        config(workers=-1)


@pytest.mark.parametrize(
    "virtual", [None, VirtualTime(boards=("rpi-4",) * 3, deadline_s=60.0)], ids=["real", "virtual"]
)
def test_a_configuration_comes_back_from_json(virtual: VirtualTime | None) -> None:
    made = config(virtual=virtual, source_classes=(1, 2))
    assert SimulationConfig.from_json(json.loads(json.dumps(made.to_json()))) == made
