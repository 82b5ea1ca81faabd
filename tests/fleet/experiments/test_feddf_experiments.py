"""FedDF's experiments hang together: every cell can be measured, every fleet can be made."""

from __future__ import annotations

import pytest

from aggregator.recipes.catalogue import find_recipe
from fleet.experiments.registry import find_experiment
from tests.fleet.experiments.feddf.made_up import configs, made_up

NAMES = ("feddf-heterogeneous", "feddf-cifar", "feddf-vgg", "feddf-text")


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
