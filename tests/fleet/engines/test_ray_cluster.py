"""Ray actors come to the models of the inline engine, bit by bit, also when one of them is lost."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from core.errors import ConfigError
from fleet.engines.ray_cluster import OnRay
from fleet.simulation.config import SimulationConfig
from fleet.simulation.simulation import Simulation
from tests.fleet.simulation.test_simulation import CONFIG, toy
from tests.ports import free_port
from tests.ray_nodes import RayCluster

torch.set_num_threads(1)
TAUGHT = {"recipe": "feddf", "fusion": {"steps": 6, "check_every": 3, "batch_size": 16}, "compute": "cpu"}


def models(config: SimulationConfig, *, lose: bool = False) -> list[torch.Tensor]:
    with Simulation(config, toy()) as simulation:
        simulation.run_round(1)
        if lose:
            assert isinstance(simulation.engine, OnRay)
            simulation.engine._workers[0].end()
        simulation.run_round(2)
        return [w for group in simulation.groups for w in group.state.values()]


@pytest.mark.slow  # Ray takes half a minute to start on a busy machine
def test_actors_train_and_distill_to_the_same_bits_also_when_one_is_lost(tmp_path: Path) -> None:
    config = replace(CONFIG, **TAUGHT)
    with RayCluster(tmp_path) as cluster, cluster.inside():
        theirs = models(replace(config, engine="ray", workers=2, address=cluster.address), lose=True)
    assert all(torch.equal(a, b) for a, b in zip(models(config), theirs, strict=True))


def test_an_address_where_no_cluster_answers_is_a_mistake_in_one_line() -> None:
    pytest.importorskip("ray", reason="needs the extra 'ray'")
    config = replace(CONFIG, engine="ray", address=f"127.0.0.1:{free_port()}")
    with pytest.raises(ConfigError, match=r"^--address 127.0.0.1:\d+: .* does not answer: Connection refused$"):
        Simulation(config, toy())


def test_an_address_goes_with_ray_only() -> None:
    with pytest.raises(ConfigError, match="--address auto requires --engine ray"):
        replace(CONFIG, address="auto")
