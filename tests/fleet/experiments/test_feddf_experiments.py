"""FedDF's experiments hang together: every cell can be measured, every fleet can be made."""

from __future__ import annotations

from functools import partial

import pytest

from aggregator.recipes.catalogue import find_recipe
from fleet.experiments.base import Results
from fleet.experiments.registry import find_experiment
from fleet.simulation.config import SimulationConfig

NAMES = ("feddf-heterogeneous", "feddf-cifar", "feddf-vgg", "feddf-text")


def configs(name: str) -> dict[str, SimulationConfig]:
    """The fleets of an experiment, by run."""
    found = {}
    for run, measure in find_experiment(name).runs("paper").items():
        assert isinstance(measure, partial)
        found[run] = measure.keywords["config"]
    return found


def made_up(name: str) -> Results:
    """Facts of all runs: FedAvg gains 1 point a round from 50, FedDF 1 from 60, its ensemble is 1 above."""
    facts = {}
    for run, config in configs(name).items():
        start = 60.0 if config.recipe == "feddf" else 50.0
        curve = {p: [start + n for n in range(config.rounds)] for p in config.prototypes}
        above = {p: [value + 1 for value in values] for p, values in curve.items()}
        facts[run] = {"accuracy": curve, "average": curve, "ensemble": above, "screened": [0] * config.rounds}
    return facts


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_can_be_measured_and_chosen(name: str) -> None:
    experiment = find_experiment(name)
    cells, results = experiment.cells("paper"), made_up(name)
    names = [cell.name for cell in cells]
    assert len(set(names)) == len(names)
    assert not any("," in cell for cell in names)  # --cells takes a comma-separated list
    used = {run for cell in cells for run in cell.runs}
    assert used == set(results)
    for cell in cells:
        assert isinstance(cell.ours.value(results), float)


@pytest.mark.parametrize("name", NAMES)
def test_recipes_differ_in_fusion_alone(name: str) -> None:
    """What the devices have and do is the same wherever dataset, alpha and prototypes are."""
    fleets = {}
    for config in configs(name).values():
        find_recipe(config.recipe, config.fusion)  # its overrides are known
        assert config.validation_size  # withheld in FedAvg's fleet too
        key = (config.dataset, config.alpha, config.prototypes)
        same = (config.training, config.devices, config.rounds, config.fraction, config.validation_size)
        assert fleets.setdefault(key, same) == same


def test_heterogeneous_asks_for_every_one_of_the_last_rounds() -> None:
    results = made_up("feddf-heterogeneous")
    cells = {cell.name: cell for cell in find_experiment("feddf-heterogeneous").cells("paper")}
    ahead, behind = cells["MNIST cnn:w1: FedDF - FedAvg"], cells["MNIST cnn:w1: ensemble - FedDF"]
    assert (ahead.ours.value(results), behind.ours.value(results)) == (10.0, 1.0)
    results["feddf mnist"]["accuracy"]["cnn:w1"][-5] = 40.0
    assert ahead.target is not None
    assert not ahead.target.met(ahead.ours.value(results), 0.0)
    assert behind.ours.value(results) == 26.0
    assert behind.target is not None
    assert not behind.target.met(26.0, 2.0)


def test_cifar_holds_rounds_against_half_of_fedavg_s() -> None:
    results = made_up("feddf-cifar")
    cells = {cell.name: cell for cell in find_experiment("feddf-cifar").cells("paper")}
    cell = cells["alpha 0.1: rounds of FedDF to FedAvg's best"]
    assert cell.target is not None
    assert not isinstance(cell.target.bound, float)
    # FedAvg is best in its last round of 8, FedDF is better from the first on
    assert (cell.ours.value(results), cell.target.bound.value(results)) == (1.0, 4.0)
