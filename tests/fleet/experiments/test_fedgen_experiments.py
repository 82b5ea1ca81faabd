"""FedGen's experiments hang together: every cell can be measured, chosen and drawn, every fleet can be made."""

from __future__ import annotations

import pytest

from aggregator.recipes.catalogue import find_recipe
from fleet.experiments.registry import find_experiment
from tests.fleet.experiments.fedgen.made_up import made_up, plans

NAMES = ("fedgen-table1", "fedgen-table4", "fedgen-sensitivity")


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_can_be_measured_chosen_and_drawn(name: str) -> None:
    experiment = find_experiment(name)
    for fidelity in experiment.fidelities:
        cells, results = experiment.cells(fidelity), made_up(name, fidelity)
        names = [cell.name for cell in cells]
        assert len(set(names)) == len(names)
        assert not any("," in cell for cell in names)
        assert {run for cell in cells for run in cell.runs} == set(results)
        for cell in cells:
            assert isinstance(cell.ours.value(results), float)
        assert experiment.draw is not None
        assert experiment.draw({(fidelity, 0): results}).axes


@pytest.mark.parametrize("name", NAMES)
def test_every_plan_is_a_fleet_of_the_product_with_weights_by_all_examples(name: str) -> None:
    for fidelity in find_experiment(name).fidelities:
        for plan in plans(name, fidelity).values():
            recipe = find_recipe(plan.config.recipe, plan.config.fusion)
            assert recipe.needs_source == (plan.config.recipe == "feddf")
            assert recipe.max_examples_ratio == 0
            assert (plan.config.partition, plan.config.devices, plan.config.score_devices) == ("fedgen", 20, "never")
