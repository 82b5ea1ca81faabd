"""Recipes by name."""

import pytest

from aggregator.recipes.catalogue import RECIPES, find_recipe
from core.errors import ConfigError

pytestmark = pytest.mark.light
NAMES = (
    "fedavg fedprox fedavgm feddf feddf-median fedbe fedrad comed multi-krum afa fedmgda fedma "
    "fedgen fedensemble feddistill feddistill+ local edgestill"
)


def test_all_are_there_with_title_and_paper() -> None:
    assert list(RECIPES) == NAMES.split()
    for name, recipe in RECIPES.items():
        assert recipe.name == name
        assert recipe.title
        assert "arXiv:" in recipe.paper, name


def test_those_that_teach_or_score_need_samples() -> None:
    needing = {name for name, recipe in RECIPES.items() if recipe.needs_source}
    assert needing == {"feddf", "feddf-median", "fedbe", "fedrad"}
    assert find_recipe("fedrad", {"teach": "none"}).needs_source
    assert {name for name, recipe in RECIPES.items() if recipe.uses_source} - needing == {"edgestill"}


def test_those_that_look_at_labelled_samples_say_so() -> None:
    looking = {name for name, recipe in RECIPES.items() if recipe.looks}
    assert looking == {"feddf", "feddf-median", "fedrad", "fedmgda", "edgestill"}
    assert find_recipe("fedavg", {"screen": ["drop-worst"]}).looks


def test_fedrad_is_expressible_as_its_authors_have_it() -> None:
    """Two epochs of SGD in batches of 16, not shuffled, 1e-4 then 2.2e-4; the mean of the two epochs' students."""
    reference = find_recipe(
        "fedrad",
        {
            "optimizer": "sgd",
            "lr": 1e-4,
            "momentum": 0.5,
            "weight_decay": 1e-4,
            "epochs": 2,
            "batch_size": 16,
            "shuffle": False,
            "schedule": "swa",
            "swa": -1,
            "clip": 0.0,
        },
    )
    assert (reference.weigh, reference.teach, reference.distill.start) == ("median-score", "median-logits", "average")
    assert not reference.looks


def test_what_devices_learn_from_has_a_name() -> None:
    named = {name: recipe.side_artifact for name, recipe in RECIPES.items() if recipe.side_artifact is not None}
    assert named == {
        "fedgen": "generator:paper",
        "edgestill": "generator:paper",
        "feddistill": "label-logits:mean",
        "feddistill+": "label-logits:mean",
    }
    assert {name for name, recipe in RECIPES.items() if recipe.update} == {"feddistill", "local"}


def test_fedprox_tells_devices_its_mu() -> None:
    assert dict(RECIPES["fedprox"].local) == {"prox": 0.003}


def test_an_unknown_recipe_gets_a_suggestion_and_the_list() -> None:
    with pytest.raises(ConfigError, match=r"'fedvag'; did you mean 'fedavg'\?; known: fedavg fedprox"):
        find_recipe("fedvag")


def test_parts_say_what_they_need_and_recipes_sum_it_up() -> None:
    assert find_recipe("fedavg").needs == frozenset()
    assert find_recipe("fedavg", {"screen": ["drop-worst"]}).needs == {"labels"}
    assert find_recipe("fedavg", {"average": "by-label"}).uses_label_counts
    assert find_recipe("fedrad").needs == {"unlabeled", "scores"}
    assert find_recipe("edgestill").needs >= {"scores", "answers", "latents", "trust"}


def test_a_weight_that_goes_by_trust_needs_a_trust_part() -> None:
    with pytest.raises(ConfigError, match="needs a trust part; give trust = 'two-doubts'"):
        find_recipe("fedavg", {"weigh": "trust"})
    with pytest.raises(ConfigError, match="needs a trust part"):
        find_recipe("edgestill", {"trust": "none"})
    assert find_recipe("fedavg", {"weigh": "trust", "trust": "two-doubts"}).needs_source is False
    assert find_recipe("edgestill", {"trust": "none", "weigh": "examples"}).trust is None
