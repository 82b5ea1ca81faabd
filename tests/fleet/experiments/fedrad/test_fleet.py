from dataclasses import replace

import pytest
import torch

from core.errors import RoundError
from edge_agent.training.params import LocalTraining
from fleet.data import load
from fleet.experiments.fedrad.fleet import make_fleet, rounds
from fleet.experiments.fedrad.plans import PLANS, Plan

SMALL = Plan(
    rounds=1,
    training=LocalTraining(lr=0.1, batch_size=16, epochs=1),
    fusion={"steps": 2, "batch_size": 16, "check_every": 1},
    validation=20,
)


@pytest.fixture(scope="module")
def digits():
    return load("digits")


def fleet_of(digits, recipe="fedrad", alpha=None, attack="faulty:10", plan=SMALL, seed=0):
    return make_fleet(digits, recipe, alpha, attack, plan, seed=seed)


def test_attackers_sit_where_fedrads_do_and_malicious_ones_have_zeros_only(digits):
    fleet = fleet_of(digits, attack="faulty:5,malicious:5")
    names = {d.id: d.attack.name for d in fleet.devices if d.attack is not None}
    assert list(names) == [f"sim-{i:02}" for i in range(2, 30, 3)]
    assert list(names.values()) == ["faulty"] * 5 + ["malicious"] * 5
    zeros = [not d.y.any() for d in fleet.devices]
    assert [d.id for d, zero in zip(fleet.devices, zeros, strict=True) if zero] == [n for n in names if n > "sim-14"]


@pytest.mark.parametrize("recipe", ["fedavg", "fedrad", "comed"])
def test_devices_weigh_by_all_their_examples_as_in_the_paper(digits, recipe):
    assert fleet_of(digits, recipe).recipe.max_examples_ratio == 0


def test_the_servers_set_is_withheld_from_all_in_our_plan(digits):
    fedrad, fedavg = fleet_of(digits), fleet_of(digits, "fedavg")
    assert [len(d.y) for d in fedrad.devices] == [len(d.y) for d in fedavg.devices]
    assert fedavg.server.source is None
    held = len(fedrad.server.source) + len(fedrad.server.validation[1])
    assert held + sum(len(d.y) for d in fedrad.devices) == len(digits.y_train)
    assert len(fedrad.server.validation[1]) == 20


def test_the_servers_set_is_withheld_only_where_it_is_used_in_the_authors_plan(digits):
    plan = replace(SMALL, withhold=False, validation=0)
    fedrad, comed = fleet_of(digits, plan=plan), fleet_of(digits, "comed", plan=plan)
    assert sum(len(d.y) for d in comed.devices) == len(digits.y_train)
    assert sum(len(d.y) for d in fedrad.devices) + len(fedrad.server.source) == len(digits.y_train)
    assert fedrad.server.validation is None


def test_a_device_without_images_takes_no_part(digits):
    fleet = fleet_of(digits, alpha=0.01)
    assert 1 < len(fleet.devices) < 30
    assert all(len(d.y) for d in fleet.devices)


def test_overrides_reach_the_recipes_that_they_are_for(digits):
    plan = replace(SMALL, server_momentum=0.5, fedrad={"score_power": 2.0})
    fedrad, feddf, comed = (fleet_of(digits, name, plan=plan).recipe for name in ("fedrad", "feddf", "comed"))
    assert [recipe.server_momentum for recipe in (fedrad, feddf, comed)] == [0.5, 0.5, 0.5]
    assert [recipe.distill.steps for recipe in (fedrad, feddf, comed)] == [2, 2, 0]
    assert [dict(recipe.options) for recipe in (fedrad, feddf)] == [{"score_power": 2.0}, {}]


@pytest.mark.parametrize("authors", [False, True])
def test_a_fleet_makes_the_same_rounds_again(digits, authors):
    fusion = {**PLANS["reference"].fusion, "epochs": 1} if authors else SMALL.fusion
    plan = replace(SMALL, authors=authors, fusion=fusion)
    made = [[facts.error for facts in rounds(fleet_of(digits, plan=plan))] for _ in range(2)]
    assert made[0] == made[1]
    assert len(made[0]) == 1


def test_what_a_faulty_device_has_learned_changes_nothing(digits):
    """Noise of deviation 20 is all that is left: weights and the error are the same, trained or not."""
    made = [
        next(iter(rounds(fleet_of(digits, plan=replace(SMALL, train_faulty=trained))))) for trained in (False, True)
    ]
    assert made[0].harm == made[1].harm == 0
    assert made[0].error == pytest.approx(made[1].error, abs=0.5)  # one image of 359 is 0.28


def test_faulty_devices_break_the_mean_but_not_fedrad(digits):
    plan = replace(SMALL, rounds=2, training=LocalTraining(lr=0.2, batch_size=8, epochs=2))
    fedavg, fedrad = (list(rounds(fleet_of(digits, recipe, plan=plan))) for recipe in ("fedavg", "fedrad"))
    assert fedavg[-1].error > 60
    assert fedavg[0].harm == pytest.approx(1 / 3, abs=0.05)
    assert fedavg[1].harm == pytest.approx(1)  # from such a start the others diverge, and are refused
    assert fedrad[-1].error < 40
    assert fedrad[-1].harm < 0.01


def test_the_authors_faulty_round_ends_with_finite_models(digits):
    plan = replace(SMALL, authors=True, withhold=False, validation=0, fusion={**PLANS["reference"].fusion, "epochs": 1})
    facts = next(iter(rounds(fleet_of(digits, attack="malicious:10", plan=plan))))
    assert 0 < facts.error < 95
    assert facts.best_step is not None
    assert torch.isfinite(torch.tensor(facts.harm))


@pytest.mark.parametrize("recipe", ["feddf", "fedavg", "comed", "multi-krum"])
def test_devices_whose_training_diverges_are_refused_and_the_rounds_go_on(digits, recipe):
    training = replace(SMALL.training)
    object.__setattr__(training, "lr", 1e30)  # beyond what anybody may set: every device diverges
    plan = replace(SMALL, rounds=2, training=training)
    kept = list(rounds(fleet_of(digits, recipe, attack="", plan=plan)))
    assert kept[0].error == kept[1].error  # nobody is left: the model stays as it is
    noisy = list(rounds(fleet_of(digits, recipe, attack="faulty:10", plan=plan)))
    assert [facts.harm for facts in noisy] == pytest.approx([1.0, 1.0])  # only they are left


def test_a_round_that_cannot_be_fused_leaves_the_model_as_it_is(digits, monkeypatch):
    def overflow(self):
        raise RoundError("no teacher has finite logits")

    plan = replace(SMALL, rounds=2)
    good = list(rounds(fleet_of(digits, "feddf", attack="", plan=plan)))
    monkeypatch.setattr("aggregator.fusion.teachers.ensemble.Ensemble.taught", overflow)
    bad = list(rounds(fleet_of(digits, "feddf", attack="", plan=plan)))
    assert bad[0].error == bad[1].error != good[1].error
    assert [facts.harm for facts in bad] == [0, 0]
