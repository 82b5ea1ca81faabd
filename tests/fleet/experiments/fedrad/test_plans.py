"""Plans of FedRAD's fleets, and their words on the page."""

from dataclasses import replace

import pytest

from aggregator.fusion.numerics.optimizers import rate
from aggregator.recipes.catalogue import find_recipe
from aggregator.recipes.lr_decay import round_lr
from fleet.experiments.fedrad.plans import PLANS


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


def test_the_server_s_set_changes_only_recipes_that_distill_and_the_screen_is_fedrads_alone():
    plan = PLANS["paper"]
    rad, df, average = (plan.overrides(name, distills=name != "fedavg") for name in ("fedrad", "feddf", "fedavg"))
    assert rad["screen"] == ("drop-worst",)
    assert "screen" not in df
    assert df["steps"] == rad["steps"] == 10
    assert not {"steps", "screen", "batch_size"} & average.keys()
    assert average["server_momentum"] == df["server_momentum"] == rad["server_momentum"] == 0.9
    for name, overrides in (("fedrad", rad), ("feddf", df), ("fedavg", average)):
        assert find_recipe(name, overrides).max_examples_ratio == 0


def test_a_fleet_of_one_round_has_no_decay():
    assert replace(PLANS["paper"], rounds=1).lr_decay == 1.0
