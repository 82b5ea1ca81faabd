"""FedGen's fleet on scikit-learn's digits: who has what, what is shared, how it is scored."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from fleet.data import hold_out, load
from fleet.experiments.base import Setting
from fleet.experiments.fedgen.fleet import Fleet
from fleet.experiments.fedgen.plans import NOTHING, PREDICTOR, Plan, plan_of
from fleet.experiments.fedgen.runs import follow, honest, reference
from fleet.experiments.fedgen.scores import ensemble_score, own_score, slice_score, whole_score
from fleet.experiments.fedgen.stack import Stack
from fleet.experiments.fedgen.users import Stream, Users, make_users

SMALL = {"devices": 4, "active": 2, "rounds": 2, "steps": 2, "batch": 8}
GENERATOR = {"generator_hidden": 8, "generator_steps": 2}


def plan(recipe: str = "fedavg", fidelity: str = "reference", **changes: object) -> Plan:
    fusion = GENERATOR if recipe == "fedgen" else {"steps": 2, "batch_size": 8} if recipe == "feddf" else {}
    return plan_of(recipe, 0.5, fidelity, **{**SMALL, "fusion": fusion, **changes})  # type: ignore[arg-type]


@cache
def everybody_with(proxy: bool) -> Users:
    return make_users(hold_out(load("digits")), plan("feddf" if proxy else "fedavg"), seed=0)


def users(of: Plan) -> Users:
    return everybody_with(bool(of.proxy))


def run(of: Plan) -> Fleet:
    fleet = Fleet(users(of), of, seed=0)
    assert list(fleet.rounds()) == [1, 2]
    return fleet


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(torch.equal(a, b))


@pytest.mark.parametrize("recipe", ["fedavg", "fedgen", "feddistill"])
def test_users_weigh_by_all_their_examples_as_in_the_paper(recipe: str) -> None:
    fleet = Fleet(users(plan(recipe)), plan(recipe), seed=0)
    assert fleet.recipe.max_examples_ratio == 0


def test_users_are_tested_on_labels_that_they_train_on() -> None:
    everybody = users(plan())
    for own, rows in zip(everybody.own, everybody.slices, strict=True):
        assert set(everybody.test_y[rows].tolist()) <= set(everybody.y[own].tolist())
    assert sum(map(sum, everybody.counts)) == len(everybody.y)


def test_the_proxy_has_images_that_nobody_has() -> None:
    data = hold_out(load("digits"))
    everybody = users(plan("feddf"))
    assert everybody.proxy is not None
    assert len(everybody.proxy) == len(data.y_train) - len(everybody.y)


def test_batches_are_full_and_go_on_over_epochs() -> None:
    stream = Stream(np.arange(5), np.random.default_rng(0))
    taken = np.concatenate([stream.take(3) for _ in range(5)])
    assert [sorted(taken[at : at + 5].tolist()) for at in (0, 5, 10)] == [[0, 1, 2, 3, 4]] * 3


def test_everybody_gets_the_global_model_but_keeps_its_own_statistics() -> None:
    fleet = run(plan())
    fleet.send()
    weight, statistic = (fleet.models.tensors[f"extractor.body.{n}"] for n in ("fc.weight", "norm1.running_mean"))
    assert all(same(one, fleet.state["extractor.body.fc.weight"]) for one in weight)
    assert len(statistic.unique(dim=0)) > 1
    averaged = run(plan(fidelity="paper"))
    averaged.send()
    assert len(averaged.models.tensors["extractor.body.norm1.running_mean"].unique(dim=0)) == 1


def test_with_predictors_alone_extractors_stay() -> None:
    fleet = run(plan("fedgen", share=PREDICTOR))
    fleet.send()
    assert len(fleet.models.tensors["extractor.body.fc.weight"].unique(dim=0)) > 1
    assert len(fleet.models.tensors["predictor.weight"].unique(dim=0)) == 1


def test_alone_nothing_is_shared() -> None:
    fleet = run(plan(share=NOTHING))
    before = {name: tensor.clone() for name, tensor in fleet.models.tensors.items()}
    fleet.send()
    assert all(same(tensor, before[name]) for name, tensor in fleet.models.tensors.items())


def test_the_learning_rate_is_that_of_the_last_round_in_which_a_user_was_asked() -> None:
    fleet = Fleet(users(plan()), plan(active=4), seed=0)
    for number in fleet.rounds():
        assert fleet._lr.tolist() == pytest.approx([0.01 * 0.99 ** (number - 1)] * 4)


@pytest.mark.parametrize("recipe", ["fedprox", "feddistill", "feddistill+", "feddf", "fedgen"])
def test_every_recipe_changes_what_fedavg_would_have_made(recipe: str) -> None:
    plain, fleet = run(plan()), run(plan(recipe))
    name = "predictor.weight"
    assert not torch.allclose(fleet.models.tensors[name], plain.models.tensors[name], atol=1e-6)


def test_scores_worked_by_hand() -> None:
    """A model that always answers 3."""
    everybody = users(plan())
    fleet = Fleet(everybody, plan(), seed=0)
    state = {name: torch.zeros_like(tensor) for name, tensor in fleet.state.items()}
    state["predictor.bias"][3] = 1.0
    models = Stack.of([state] * 4)
    threes = 100 * float((everybody.test_y == 3).double().mean())
    assert whole_score(Stack.of([state]), everybody) == pytest.approx(threes)
    rows = torch.cat(list(everybody.slices))
    of_slices = 100 * float((everybody.test_y[rows] == 3).double().mean())
    assert slice_score(models, everybody) == pytest.approx(of_slices)
    assert ensemble_score(models, everybody) == pytest.approx(of_slices)
    assert own_score(models, everybody) == pytest.approx(100 * float((everybody.test_y[::5] == 3).double().mean()))


def test_a_run_is_scored_now_and_then_and_in_all_of_its_last_rounds(tmp_path: Path) -> None:
    said: list[str] = []
    setting = Setting(fidelity="reference", seed=1, folder=tmp_path, say=said.append)
    long = replace(plan(rounds=24), every=10)
    facts = follow(setting, plan=long, dataset="digits", ensemble=True)
    assert facts["round"] == [10, *range(15, 25)]
    assert (len(facts["slices"]), len(facts["whole"]), len(facts["ensemble"])) == (11, 10, 5)
    assert said[-1].startswith("round 24/24, ")
    results = {"a": facts}
    assert reference("a").value(results) == pytest.approx(sum(sorted(facts["slices"])[-5:]) / 5)
    assert honest("a").value(results) == pytest.approx(sum(facts["whole"][-10:]) / 10)
