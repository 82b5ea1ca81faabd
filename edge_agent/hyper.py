"""How a device trains, as a value. Imports no torch: the agent process reads it and hands it to its training child."""

from __future__ import annotations

import math
from dataclasses import dataclass

from wire.errors import ConfigError

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
        amount = self.epochs if self.epochs is not None else self.steps
        if amount is not None and amount < 1:
            raise ConfigError(f"local training: {amount} epochs or steps; give at least 1")
        if self.batch_size < 1:
            raise ConfigError(f"local training: batch size {self.batch_size}; give at least 1")
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise ConfigError(f"local training: learning rate {self.lr}; give a positive number")
        if not 0 <= self.momentum < 1:
            raise ConfigError(f"local training: momentum {self.momentum}; give a number in [0, 1)")
        if self.weight_decay < 0 or self.prox < 0:
            raise ConfigError("local training: weight decay and prox cannot be negative")
