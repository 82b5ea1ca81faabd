"""FedRAD's fleet as a configuration of the simulated one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from edge_agent.training.params import LocalTraining
from fleet.data import Dataset, load
from fleet.experiments.fedrad.plans import PLANS, Plan
from fleet.experiments.fedrad.runs import config_of, make_fleet, rounds
from fleet.simulation.round_message import News
from fleet.simulation.simulation import Simulation

SMALL = Plan(
    rounds=1,
    training=LocalTraining(lr=0.1, batch_size=16, epochs=1),
    fusion={"steps": 2, "batch_size": 16, "check_every": 1},
    validation=20,
)
AUTHORS = replace(SMALL, authors=True, withhold=False, validation=0, fusion={**PLANS["reference"].fusion, "epochs": 1})


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load("digits")


def fleet_of(
    digits: Dataset, recipe: str = "fedrad", alpha: float | None = None, attack: str = "faulty:10", plan: Plan = SMALL
) -> Simulation:
    return make_fleet(config_of(recipe, alpha, attack, plan, dataset="digits", seed=0), digits, plan)


def rows_of(fleet: Simulation) -> list[int]:
    return [len(device.rows) for device in fleet.devices]


def test_attackers_sit_where_fedrads_do(digits: Dataset) -> None:
    fleet = fleet_of(digits, attack="faulty:5,malicious:5")
    names = {device.id: device.attack.name for device in fleet.devices if device.attack is not None}
    assert list(names) == [f"sim-{i:02}" for i in range(2, 30, 3)]
    assert list(names.values()) == ["faulty"] * 5 + ["malicious"] * 5


@pytest.mark.parametrize("recipe", ["fedavg", "fedrad", "comed"])
def test_devices_weigh_by_all_their_examples_as_in_the_paper(digits: Dataset, recipe: str) -> None:
    assert fleet_of(digits, recipe).recipe.max_examples_ratio == 0


def test_the_servers_set_is_withheld_from_all_in_our_plan(digits: Dataset) -> None:
    fedrad, fedavg = fleet_of(digits), fleet_of(digits, "fedavg")
    for a, b in zip(fedrad.devices, fedavg.devices, strict=True):
        assert torch.equal(a.x, b.x)
        assert torch.equal(a.y, b.y)
    assert fedavg.server.source is None
    assert fedavg.server.validation is None
    assert fedrad.server.source is not None
    assert fedrad.server.validation is not None
    assert len(fedrad.server.validation[1]) == 20
    assert len(fedrad.server.source) + 20 + sum(rows_of(fedrad)) == len(digits.y_train)


def test_the_servers_set_is_withheld_only_where_it_is_used_in_the_authors_plan(digits: Dataset) -> None:
    fedrad, comed = fleet_of(digits, plan=AUTHORS), fleet_of(digits, "comed", plan=AUTHORS)
    assert sum(rows_of(comed)) == len(digits.y_train)
    assert fedrad.server.source is not None
    assert fedrad.server.validation is None
    assert sum(rows_of(fedrad)) + len(fedrad.server.source) == len(digits.y_train)


def test_overrides_reach_the_recipes_that_they_are_for(digits: Dataset) -> None:
    plan = replace(SMALL, server_momentum=0.5, fedrad={"score_power": 2.0})
    fedrad, feddf, comed = (fleet_of(digits, name, plan=plan).recipe for name in ("fedrad", "feddf", "comed"))
    assert [recipe.server_momentum for recipe in (fedrad, feddf, comed)] == [0.5, 0.5, 0.5]
    assert [recipe.distill.steps for recipe in (fedrad, feddf, comed)] == [2, 2, 0]
    assert [dict(recipe.options) for recipe in (fedrad, feddf)] == [{"score_power": 2.0}, {}]


@pytest.mark.parametrize("plan", [SMALL, AUTHORS], ids=["ours", "authors"])
def test_a_fleet_makes_the_same_rounds_again(digits: Dataset, plan: Plan) -> None:
    made = []
    for _ in range(2):
        fleet = fleet_of(digits, plan=plan)
        made.append(([facts.error for facts in rounds(fleet)], fleet.groups[0].state))
    (errors, states), (again, same) = made
    assert errors == again
    assert len(errors) == 1
    assert all(torch.equal(states[name], w) for name, w in same.items())


def test_only_the_authors_plan_drops_and_takes_the_softmax_first(digits: Dataset) -> None:
    ours, theirs = fleet_of(digits).hooks, fleet_of(digits, plan=AUTHORS).hooks
    assert (ours.loss, ours.teacher, ours.count) == (None, None, None)
    assert None not in (theirs.loss, theirs.teacher, theirs.count)


def test_faulty_devices_break_the_mean_but_not_fedrad(digits: Dataset) -> None:
    plan = replace(SMALL, rounds=2, training=LocalTraining(lr=0.2, batch_size=8, epochs=2))
    fedavg, fedrad = (list(rounds(fleet_of(digits, recipe, plan=plan))) for recipe in ("fedavg", "fedrad"))
    assert fedavg[-1].error is not None
    assert fedavg[-1].error > 60
    assert fedavg[0].harm == pytest.approx(1 / 3, abs=0.05)
    assert fedavg[1].lost > 10  # from such a start training diverges
    assert fedrad[-1].error is not None
    assert fedrad[-1].error < 40
    assert fedrad[-1].harm < 0.01


def test_the_authors_malicious_round_ends_with_a_model_that_has_learned(digits: Dataset) -> None:
    fleet = fleet_of(digits, attack="malicious:10", plan=AUTHORS)
    facts = next(iter(rounds(fleet)))
    assert facts.error is not None
    assert 0 < facts.error < 95
    assert 0 < facts.harm < 1 / 3
    assert all(bool(w.isfinite().all()) for w in fleet.groups[0].state.values())


def test_rounds_that_are_not_scored_have_no_error(digits: Dataset) -> None:
    fleet = fleet_of(digits, "fedavg", attack="", plan=replace(SMALL, rounds=3, score_every=2))
    assert [facts.error is None for facts in rounds(fleet)] == [True, False, False]


def test_the_first_round_has_steps_of_its_own(digits: Dataset) -> None:
    fleet = fleet_of(digits, "fedavg", attack="", plan=replace(SMALL, first_steps=3, rounds=3, last_lr=0.025))
    news = [News(round_number=number, published={}, extra=fleet.recipe.local) for number in (1, 2, 3)]
    by_round = [fleet.devices[0].training_of(one) for one in news]
    assert [(one.steps, one.epochs) for one in by_round] == [(3, None), (None, 1), (None, 1)]
    assert [one.lr for one in by_round] == pytest.approx([0.1, 0.05, 0.025])
