"""Parameters of local training. Imports no torch: the agent process reads them and passes them to its child."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from core.errors import ConfigError
from core.limits import BATCH, CLIP, EPOCHS, LR, STEPS, WEIGHT
from core.local_defaults import FAST, check_bounds, check_momentum, with_defaults
from core.settings.compute_names import AMP

__all__ = ["DEFAULTS", "LocalTraining", "local_training"]


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
    clip: float = 0.0  # maximum L2 norm of a mini-batch's gradient, over all parameters; 0: no clipping
    least_steps: int = 0  # minimum number of mini-batches with `epochs`; 0: none
    most_steps: int = 0  # maximum number of mini-batches with `epochs`; 0: none
    fast: str = "auto"  # or off: no hand-written fast path (edge_agent/training/trainer.py), for comparison
    amp: str = "off"  # or bf16: mixed precision around forward and backward

    def __post_init__(self) -> None:
        if (self.epochs is None) == (self.steps is None):
            raise ConfigError("local training: give either epochs or steps")
        EPOCHS.check(self.epochs, "local training: epochs")
        STEPS.check(self.steps, "local training: steps")
        BATCH.check(self.batch_size, "local training: batch size")
        LR.check(self.lr, "local training: learning rate")
        check_momentum(self.momentum)
        WEIGHT.check(self.weight_decay, "local training: weight decay")
        WEIGHT.check(self.prox, "local training: prox")
        if self.clip != 0:
            CLIP.check(self.clip, "local training: clip")
        for value, name in ((self.least_steps, "least steps"), (self.most_steps, "most steps")):
            if value != 0:
                STEPS.check(value, f"local training: {name}")
        if self.fast not in FAST:
            raise ConfigError(f"local training: fast is {self.fast!r}; give {' or '.join(FAST)}")
        if self.amp not in AMP:
            raise ConfigError(f"local training: amp is {self.amp!r}; give {' or '.join(AMP)}")
        check_bounds(self.steps, self.least_steps, self.most_steps)


def local_training(**given: Any) -> LocalTraining:
    """Local training with the defaults of `core/local_defaults.py` for values that are None or missing."""
    return LocalTraining(**with_defaults(**given))


DEFAULTS = local_training()
