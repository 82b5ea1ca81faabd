"""Ray actors come to the models of the inline engine, bit by bit, also when one of them is lost."""

import importlib.util
import os
from dataclasses import replace

import pytest
import torch

from core.errors import ConfigError
from fleet.engines.ray_cluster import OnRay
from fleet.simulation.config import SimulationConfig
from fleet.simulation.simulation import Simulation
from tests.fleet.simulation.test_simulation import CONFIG, toy

torch.set_num_threads(1)
TAUGHT = {"recipe": "feddf", "fusion": {"steps": 6, "check_every": 3, "batch_size": 16}, "compute": "cpu"}
ALLOWED = os.environ.get("EDGESTILL_TEST_RAY") == "1"  # Ray listens on the network: run it under unshare -rn
HERE = importlib.util.find_spec("ray") is not None


def models(config: SimulationConfig, *, lose: bool = False) -> list[torch.Tensor]:
    with Simulation(config, toy()) as simulation:
        simulation.run_round(1)
        if lose:
            assert isinstance(simulation.engine, OnRay)
            simulation.engine._workers[0].end()
        simulation.run_round(2)
        return [w for group in simulation.groups for w in group.state.values()]


@pytest.mark.slow  # Ray takes half a minute to start on a busy machine
@pytest.mark.skipif(not (HERE and ALLOWED), reason="needs the extra 'ray' and EDGESTILL_TEST_RAY=1: it opens ports")
def test_actors_train_and_distill_to_the_same_bits_also_when_one_is_lost() -> None:
    config = replace(CONFIG, **TAUGHT)
    theirs = models(replace(config, engine="ray", workers=2), lose=True)
    assert all(torch.equal(a, b) for a, b in zip(models(config), theirs, strict=True))


@pytest.mark.skipif(HERE, reason="Ray is installed")
def test_without_ray_it_says_what_to_install() -> None:
    with pytest.raises(ConfigError, match=r"pip install 'edgestill\[ray\]'"):
        Simulation(replace(CONFIG, engine="ray"), toy())


def test_an_address_goes_with_ray_only() -> None:
    with pytest.raises(ConfigError, match="--address auto requires --engine ray"):
        replace(CONFIG, address="auto")
