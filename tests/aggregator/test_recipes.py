"""Recipes by name."""

import pytest

from aggregator.config_tables import RECIPES as NAMES
from aggregator.recipes import RECIPES, find_recipe
from wire.errors import ConfigError


def test_an_unknown_recipe_gets_a_suggestion_and_the_list() -> None:
    with pytest.raises(ConfigError, match=r"'fedvag'; did you mean 'fedavg'\?; known: fedavg"):
        find_recipe("fedvag")
    assert set(RECIPES) == {"fedavg"}


def test_the_config_knows_every_recipe() -> None:
    assert set(NAMES) == set(RECIPES)
