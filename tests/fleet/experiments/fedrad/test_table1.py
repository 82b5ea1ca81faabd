from pathlib import Path

import pytest

from edge_agent.training.params import LocalTraining
from fleet.experiments.base import Fact, Setting
from fleet.experiments.fedrad.plans import Plan
from fleet.experiments.fedrad.table1 import EXPERIMENT, measure


def cells(fidelity):
    return {cell.name: cell for cell in EXPERIMENT.cells(fidelity)}


def test_fedrad_is_held_against_its_published_error_in_all_twelve_cells():
    own = {name: cell for name, cell in cells("paper").items() if name.startswith("FedRAD")}
    assert len(own) == 12
    bounds = [cell.target.bound for cell in own.values()]
    assert bounds == [5.29, 5.44, 5.89, 5.63, 5.82, 5.91, 6.55, 6.15, 9.38, 12.63, 13.09, 10.95]
    assert bounds == [cell.paper for cell in own.values()]
    assert all(cell.target.sign == "<" for cell in own.values())


def test_every_other_recipe_must_be_worse_in_every_attacked_cell():
    others = [cell for name, cell in cells("paper").items() if not name.startswith("FedRAD")]
    assert len(others) == 4 * 9
    for cell in others:
        recipe, _, where = cell.name.partition(" ")
        assert recipe in ("FA", "COMED", "MKRUM", "FedDF")
        assert isinstance(cell.target.bound, Fact)
        assert cell.target.bound.runs == (f"FedRAD {where}",)
        assert cell.target.sign == ">"


def test_six_published_numbers_are_reproduced_within_a_point():
    found = {name: (cell.target.bound, cell.target.tolerance) for name, cell in cells("reference").items()}
    assert sorted(bound for bound, _ in found.values()) == [5.24, 5.39, 5.44, 5.63, 5.89, 5.91]
    assert {tolerance for _, tolerance in found.values()} == {1.0}


@pytest.mark.parametrize("fidelity", ["paper", "reference"])
def test_every_run_that_a_cell_needs_can_be_made(fidelity):
    needed = {run for cell in EXPERIMENT.cells(fidelity) for run in cell.runs}
    assert needed == set(EXPERIMENT.runs(fidelity))


def test_a_run_measures_its_error_round_by_round():
    plan = Plan(
        rounds=2,
        training=LocalTraining(lr=0.1, batch_size=16, steps=2),
        fusion={"steps": 2, "batch_size": 16, "check_every": 1},
        validation=20,
    )
    said: list[str] = []
    setting = Setting(fidelity="paper", seed=0, folder=Path(), say=said.append)
    facts = measure(setting, key=("fedrad", "alpha 0.5", "5+5"), dataset="digits", plan=plan)
    assert facts["error"] == pytest.approx(facts["errors"]["2"], abs=0.01)
    assert len(facts["errors"]) == len(facts["attackers_weight"]) == len(said) == 2
    assert said[1].startswith("round 2/2, error ")
    assert {"teach", "distill"} <= set(facts["seconds_by"])
