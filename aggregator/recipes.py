"""Recipes: named compositions of fusion parts, as data. Imports no torch: the command line and the config read it.

    screen -> weigh -> average (per prototype) -> teach (over all prototypes) -> distill (per prototype)

A recipe names the parts; `aggregator/fusion/parts.py` finds them. `[fusion]` of fleet.toml names a recipe and may
override any field of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from wire.errors import ConfigError, did_you_mean

__all__ = ["RECIPES", "Distillation", "Recipe", "find_recipe"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distillation:
    """How a student learns from its teachers; the defaults are FedDF's (Lin et al. 2020, arXiv:2006.07242)."""

    start: str = "average"  # or previous: the model that was published
    optimizer: str = "adam"  # or sgd
    lr: float = 1e-3  # of the NeurIPS version; 2e-3 without a schedule in the preprint
    schedule: str = "cosine"  # or constant
    momentum: float = 0.0  # of sgd
    weight_decay: float = 0.0
    batch_size: int = 128
    steps: int = 10_000  # at most
    check_every: int = 100  # steps between two looks at the validation set
    patience: int = 1000  # steps without gain before it stops
    clip: float = 5.0  # greatest norm of a gradient; 0: none
    temperature: float = 1.0
    keep_start: bool = True  # the starting point is a checkpoint too
    swa: int = 0  # average the weights of every n-th step's student instead of taking the best (FedBE); 0: no
    student: str = "float"  # or own: distill at the prototype's own precision, straight through


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One way to fuse a round."""

    name: str
    title: str  # one line
    paper: str  # where it comes from
    screen: tuple[str, ...] = ()  # besides shapes and finiteness, which every update passed before
    weigh: str = "examples"
    average: str = "mean"
    bn: str = "mean"  # or last: BatchNorm's statistics of the last update, as FedDF's code has them
    server_momentum: float = 0.0  # beta of FedAvgM
    sample: str | None = None  # gaussian or dirichlet: models drawn around the average join the teachers (FedBE)
    samples: int = 0
    teach: str | None = None  # mean-logits, median-logits or mean-probabilities; None: no distillation
    distill: Distillation = Distillation()
    options: Mapping[str, Any] = field(default_factory=dict)  # of parts, by name
    local: Mapping[str, float] = field(default_factory=dict)  # what devices are told, unless the user says otherwise

    @property
    def needs_source(self) -> bool:
        """Whether the aggregator needs samples without labels."""
        return self.teach is not None or self.weigh == "median-score"


FEDAVG = Recipe(
    name="fedavg",
    title="example-weighted mean",
    paper="McMahan et al. 2017, arXiv:1602.05629",
)
#: By name.
RECIPES: Mapping[str, Recipe] = MappingProxyType({recipe.name: recipe for recipe in (FEDAVG,)})


def find_recipe(name: str, overrides: Mapping[str, Any] = MappingProxyType({})) -> Recipe:
    """The recipe called `name`, with the fields of `overrides` in place of its own."""
    if name not in RECIPES:
        raise ConfigError(f"unknown recipe {name!r}{did_you_mean(name, RECIPES)}; known: {' '.join(RECIPES)}")
    return replace(RECIPES[name], **overrides)
