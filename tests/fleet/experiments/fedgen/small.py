"""FedGen's fleets, small, on scikit-learn's digits."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from fleet.data import Dataset, load
from fleet.experiments.fedgen.authors import hooks_of, open_fleet
from fleet.experiments.fedgen.plans import Plan, plan_of
from fleet.simulation.simulation import Simulation

FUSION = {"fedgen": {"generator_hidden": 8, "generator_steps": 2}, "feddf": {"steps": 2, "batch_size": 8}}


@cache
def digits() -> Dataset:
    return load("digits")


def plan(recipe: str = "fedavg", fidelity: str = "reference", *, rounds: int = 2, **changes: Any) -> Plan:
    """Four users, two in a round, two steps of eight images."""
    made = plan_of(recipe, 0.5, fidelity, rounds=rounds, fusion=FUSION.get(recipe), **changes)
    training = replace(made.config.training, steps=2, batch_size=8)
    return replace(made, config=replace(made.config, dataset="digits", devices=4, training=training))


def ran(of: Plan, rounds: int = 2) -> Simulation:
    """After `rounds` rounds."""
    fleet = open_fleet(of, digits(), hooks_of(of))
    for number in range(1, rounds + 1):
        fleet.run_round(number)
    return fleet
