"""Learning rates that decay from round to round."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from aggregator.recipes.catalogue import find_recipe
from aggregator.recipes.lr_decay import hyper_of_round, round_lr
from core.errors import ConfigError
from edge_agent.training.params import LocalTraining
from fleet.data import load
from fleet.simulation.config import SimulationConfig
from fleet.simulation.simulation import Simulation
from wire.messages import Hyper


def test_the_first_round_has_the_learning_rate_itself() -> None:
    hyper = Hyper(batch_size=8, lr=0.2, steps=1, extra={"local_lr_decay": 0.5})
    assert [hyper_of_round(hyper, number).lr for number in (1, 2, 3)] == pytest.approx([0.2, 0.1, 0.05])
    assert hyper_of_round(hyper, 2).extra == hyper.extra


def test_without_a_decay_it_stays() -> None:
    hyper = Hyper(batch_size=8, lr=0.2, steps=1)
    assert hyper_of_round(hyper, 50) == hyper
    assert round_lr(0.1, {}, 7) == 0.1


def test_any_recipe_may_have_a_decay() -> None:
    assert find_recipe("fedavg", {"local_lr_decay": 0.99}).local["local_lr_decay"] == 0.99
    with pytest.raises(ConfigError, match="local_lr_decay"):
        find_recipe("fedavg", {"local_lr_decay": 1.5})


def test_simulated_devices_train_with_the_rate_of_the_round() -> None:
    """In round 3 a decay of 0.5 makes the rate a quarter: as if it had been given so."""
    config = SimulationConfig(
        dataset="digits",
        devices=2,
        prototypes=("mlp:fp32",),
        training=LocalTraining(lr=0.4, batch_size=8, steps=2),
        fusion={"local_lr_decay": 0.5},
    )
    slow = replace(config, training=replace(config.training, lr=0.1), fusion={})
    states = []
    for one in (config, slow):
        simulation = Simulation(one, load("digits"))
        simulation.run_round(3)
        states.append(simulation.groups[0].state)
    assert all(torch.equal(w, states[1][name]) for name, w in states[0].items())
