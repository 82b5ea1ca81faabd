"""Local training and fusion of FedRAD's table: our own default, and the authors' code. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from aggregator.recipes.lr_decay import LR_DECAY
from edge_agent.training.params import LocalTraining
from fleet.experiments.base import UNCAPPED

__all__ = ["PLANS", "Plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Hyper-parameters of one fidelity, for all recipes."""

    rounds: int
    training: LocalTraining
    first_steps: int | None = None  # of the first round: after fewer steps, devices are indistinguishable
    last_lr: float | None = None  # final learning rate of an exponential decay
    fusion: Mapping[str, Any] = field(default_factory=dict)  # overrides of the recipes that need the server's set
    fedrad: Mapping[str, Any] = field(default_factory=dict)  # further ones, of FedRAD only
    server_momentum: float = 0.0  # of all recipes
    validation: int = 0  # labelled images, in addition to that set, that select the student
    withhold: bool = True  # the server's set is held out for recipes that do not use it, too
    authors: bool = False  # the loss and the dropout of the authors' code (authors.py)
    score_every: int = 1  # rounds between two scores on the test set

    @property
    def lr_decay(self) -> float:
        """The factor of the learning rate from round to round (`aggregator/recipes/lr_decay.py`)."""
        if self.last_lr is None or self.rounds == 1:
            return 1.0
        return math.pow(self.last_lr / self.training.lr, 1 / (self.rounds - 1))

    def overrides(self, recipe: str, *, distills: bool) -> dict[str, Any]:
        """The overrides of `recipe`."""
        momentum = {"server_momentum": self.server_momentum} if self.server_momentum else {}
        decay = {LR_DECAY: self.lr_decay} if self.lr_decay != 1 else {}
        own = {**(self.fusion if distills else {}), **(self.fedrad if recipe == "fedrad" else {})}
        return {**UNCAPPED, **momentum, **decay, **own}

    def of_round(self, training: LocalTraining, round_number: int) -> LocalTraining:
        """Hyper-parameters of round `round_number`: a hook of the simulation that changes the first round."""
        if round_number > 1 or self.first_steps is None:
            return training
        return replace(training, epochs=None, steps=self.first_steps)

    def words(self) -> str:
        """The text on the result page."""
        training = self.training
        amount = f"{training.epochs} epochs" if training.epochs else f"{training.steps} steps"
        first = f" (the first of {self.first_steps})" if self.first_steps else ""
        rate = f"{training.lr:g}" if self.last_lr is None else f"{training.lr:g} to {self.last_lr:g}"
        loss = "CE of the softmax, dropout always on" if self.authors else "CE, dropout off when tested"
        fusion, fedrad = (_words(overrides) for overrides in (self.fusion, self.fedrad))
        alone = f" and FedRAD with {fedrad}" if fedrad else ""
        momentum = f", momentum {training.momentum:g}" if training.momentum else ""
        server = f", momentum {self.server_momentum:g} at the server" if self.server_momentum else ""
        return (
            f"{self.rounds} rounds of {amount}{first}, batch {training.batch_size}, lr {rate}{momentum}, {loss}"
            f"{server}; FedDF and FedRAD with {fusion}{alone}, {self.validation or 'no'} labelled images"
        )


def _words(overrides: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in overrides.items())


#: By fidelity.
PLANS: Mapping[str, Plan] = {
    "paper": Plan(
        rounds=100,
        training=LocalTraining(lr=0.1, batch_size=32, steps=5, momentum=0.5),
        first_steps=20,
        last_lr=0.06,
        fusion={"lr": 3e-4, "steps": 10, "batch_size": 32, "check_every": 5},
        fedrad={"screen": ("drop-worst",), "drop_below": 0.6, "score_power": 0.5},
        server_momentum=0.9,
        validation=500,
        score_every=5,
    ),
    "reference": Plan(
        rounds=30,
        training=LocalTraining(lr=0.05, batch_size=64, epochs=5, momentum=0.9),
        fusion={
            "optimizer": "sgd",
            "lr": 1e-4,
            "momentum": 0.5,
            "weight_decay": 1e-4,
            "schedule": "swa",
            "swa_lr": 0.005,
            "swa": -1,
            "epochs": 2,
            "batch_size": 16,
            "shuffle": False,
            "clip": 0.0,
        },
        withhold=False,
        authors=True,
    ),
}
