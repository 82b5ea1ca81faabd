from dataclasses import replace
from pathlib import Path

import pytest

from aggregator.fusion.numerics.optimizers import rate
from aggregator.recipes.catalogue import find_recipe
from aggregator.recipes.lr_decay import round_lr
from edge_agent.training.params import LocalTraining
from fleet.experiments.base import Fact, Setting
from fleet.experiments.fedrad.plans import PLANS, Plan
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


def test_the_reference_student_learns_at_1e_4_and_then_at_2_2e_4():
    how = find_recipe("fedrad", PLANS["reference"].fusion).distill
    assert rate(how, 0, 1250, 0) == pytest.approx(1e-4)
    assert rate(how, 625, 1250, 1) == pytest.approx(2.2e-4, rel=1e-3)
    assert (how.epochs, how.batch_size, how.shuffle, how.swa, how.clip) == (2, 16, False, -1, 0)


def test_a_plan_says_on_the_page_what_it_does():
    words = PLANS["reference"].words()
    assert "30 rounds of 5 epochs, batch 64, lr 0.05, momentum 0.9, CE of the softmax, dropout always on" in words
    assert "no labelled images" in words
    assert "momentum 0.8 at the server" in replace(PLANS["reference"], server_momentum=0.8).words()


def test_the_learning_rate_falls_by_the_same_factor_from_round_to_round():
    plan = replace(PLANS["reference"], rounds=3, last_lr=0.0005)
    told = find_recipe("comed", plan.overrides("comed", distills=False)).local
    assert [round_lr(0.05, told, number) for number in (1, 2, 3)] == pytest.approx([0.05, 0.005, 0.0005])
    assert "lr 0.05 to 0.0005, momentum" in plan.words()
    assert "local_lr_decay" not in PLANS["reference"].overrides("comed", distills=False)


def test_the_first_round_may_be_longer():
    plan = replace(PLANS["reference"], first_steps=60)
    first, second = (plan.of_round(plan.training, number) for number in (1, 2))
    assert (first.steps, first.epochs) == (60, None)
    assert second is plan.training
    assert "30 rounds of 5 epochs (the first of 60), batch 64" in plan.words()


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


def test_the_figure_has_a_bar_for_every_run_that_was_made():
    results = {
        ("paper", 0): {"FedRAD IID 10 faulty": {"error": 3.0}, "FA IID 10 faulty": {"error": 90.2}},
        ("paper", 1): {"FedRAD IID 10 faulty": {"error": 4.0}},
        ("reference", 0): {"FedRAD IID 10 faulty": {"error": 5.4}},
    }
    figure = EXPERIMENT.draw(results)
    heights = [sorted(bar.get_height() for bar in axes.patches) for axes in figure.axes]
    assert heights == [[3.5, 90.2], [], []]
