"""How a device trains, as a value. Imports no torch: the agent process reads it and hands it to its training child."""

from __future__ import annotations

from dataclasses import dataclass

from wire.errors import ConfigError
from wire.limits import BATCH, EPOCHS, LR, STEPS, WEIGHT

__all__ = ["LocalTraining"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTraining:
    """Device-side SGD; symbols as in McMahan et al. 2017, Algorithm 1. Give `epochs` or `steps`, not both."""

    lr: float  # eta
    batch_size: int  # B
    epochs: int | None = None  # E
    steps: int | None = None  # FedGen counts mini-batch steps instead of epochs
    momentum: float = 0.0
    weight_decay: float = 0.0
    prox: float = 0.0  # mu of FedProx, Li et al. 2020: the gradient gains mu * (w - w_received)

    def __post_init__(self) -> None:
        if (self.epochs is None) == (self.steps is None):
            raise ConfigError("local training: give either epochs or steps")
        EPOCHS.check(self.epochs, "local training: epochs")
        STEPS.check(self.steps, "local training: steps")
        BATCH.check(self.batch_size, "local training: batch size")
        LR.check(self.lr, "local training: learning rate")
        if not 0 <= self.momentum < 1:
            raise ConfigError(f"local training: momentum {self.momentum}; give a number in [0, 1)")
        WEIGHT.check(self.weight_decay, "local training: weight decay")
        WEIGHT.check(self.prox, "local training: prox")
