"""How the fleets of FedRAD's table train and fuse: our own default, and the authors' code. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edge_agent.hyper import LocalTraining

__all__ = ["PLANS", "Plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One way, for all recipes."""

    rounds: int
    training: LocalTraining
    fusion: Mapping[str, Any] = field(default_factory=dict)  # overrides of the recipes that need the server's set
    server_momentum: float = 0.0  # of all recipes
    validation: int = 0  # of that set, labelled images that decide which student is kept
    withhold: bool = True  # the server's set is kept from the devices of recipes that need none, too
    authors: bool = False  # the loss and the dropout of the authors' code (fedrad_authors.py)
    train_faulty: bool = False  # noise of deviation 20 leaves nothing of what a faulty device has learned

    def words(self) -> str:
        """For the page."""
        how = self.training
        amount = f"{how.epochs} epochs" if how.epochs else f"{how.steps} steps"
        loss = "CE of the softmax, dropout always on" if self.authors else "CE, dropout off when tested"
        fusion = " ".join(f"{key}={value}" for key, value in self.fusion.items())
        momentum = f", momentum {how.momentum:g}" if how.momentum else ""
        server = f", momentum {self.server_momentum:g} at the server" if self.server_momentum else ""
        return (
            f"{self.rounds} rounds of {amount}, batch {how.batch_size}, lr {how.lr:g}{momentum}, {loss}"
            f"{server}; FedRAD and FedDF with {fusion}, {self.validation or 'no'} labelled images"
        )


#: By fidelity.
PLANS: Mapping[str, Plan] = {
    "paper": Plan(
        rounds=30,
        training=LocalTraining(lr=0.1, batch_size=32, steps=20, momentum=0.5),
        fusion={"score_power": 2.0, "steps": 20, "batch_size": 32, "check_every": 5},
        server_momentum=0.8,
        validation=1000,
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
