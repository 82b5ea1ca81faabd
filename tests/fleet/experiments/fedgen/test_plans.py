"""Plans of FedGen's fleets: what is printed, and what the authors' code does."""

from __future__ import annotations

import pytest

from aggregator.recipes.catalogue import find_recipe
from fleet.experiments.fedgen.plans import RECIPES, plan_of
from tests.fleet.experiments.fedgen.made_up import plans


def test_fidelities_differ_as_the_authors_code_differs_from_the_paper() -> None:
    printed, coded = (plans("fedgen-table1", fidelity)["FedGen alpha 1"] for fidelity in ("paper", "reference"))
    assert (printed.authors, coded.authors) == (False, True)
    assert (printed.round_counts, coded.round_counts) == (False, True)
    told = [find_recipe(plan.config.recipe, plan.config.fusion).local for plan in (printed, coded)]
    assert "generated_kl" not in told[0]
    assert told[1]["generated_kl"] == 10.0


@pytest.mark.parametrize(("fidelity", "prox", "decay"), [("reference", 1.0, 0.001), ("paper", 0.01, 0.0)])
def test_fedprox_alone_is_pulled_and_decays(fidelity: str, prox: float, decay: float) -> None:
    training = plan_of("fedprox", 0.1, fidelity).config.training
    assert (training.prox, training.weight_decay) == (prox, decay)
    for recipe in set(RECIPES.values()) - {"fedprox"}:
        training = plan_of(recipe, 0.1, fidelity).config.training
        assert (training.prox, training.weight_decay, training.steps, training.batch_size) == (0.0, 0.0, 20, 32)


def test_a_round_asks_as_many_users_as_are_active_and_further_fields_win() -> None:
    plan = plan_of("feddf", 1.0, "paper", active=4, fusion={"steps": 3})
    assert plan.config.fraction * plan.config.devices == 4
    assert (plan.config.fusion["steps"], plan.config.fusion["batch_size"]) == (3, 64)
    assert plan_of("feddf", 1.0, "paper").config.fusion["steps"] == 10


def test_label_logits_are_those_of_all_samples_in_the_authors_code_alone() -> None:
    for recipe in ("feddistill", "feddistill+"):
        assert {plan_of(recipe, 0.1, f).config.fusion["label_logits_weight"] for f in ("reference", "paper")} == {1.0}
        assert plan_of(recipe, 0.1, "reference").config.fusion["label_logits"] == "all"
        assert "label_logits" not in plan_of(recipe, 0.1, "paper").config.fusion
