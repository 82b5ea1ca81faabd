"""Recipes: named compositions of fusion parts. A recipe turns the updates of one prototype into its next model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from torch import Tensor

from aggregator.fusion.average import weighted_mean
from wire.errors import ConfigError, did_you_mean

__all__ = ["RECIPES", "Recipe", "find_recipe"]


class Recipe(Protocol):
    """The states that devices of one prototype sent, and their numbers of examples, in; the next model out."""

    def __call__(self, updates: Sequence[Mapping[str, Tensor]], num_examples: Sequence[int], /) -> dict[str, Tensor]:
        """Fuse."""


#: By name. FedAvg is the example-weighted mean.
RECIPES: dict[str, Recipe] = {"fedavg": weighted_mean}


def find_recipe(name: str) -> Recipe:
    """The recipe called `name`."""
    if name not in RECIPES:
        raise ConfigError(f"unknown recipe {name!r}{did_you_mean(name, RECIPES)}; known: {' '.join(RECIPES)}")
    return RECIPES[name]
