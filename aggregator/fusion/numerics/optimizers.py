"""Adam or SGD on all tensors at once, and learning-rate schedules, for students.

Steps are `torch.optim.adam.adam` and `torch.optim.sgd.sgd`, the functions behind the classes. The classes, and the
schedulers that need them, import torch._dynamo: 1.7 s of CPU and 70 MB in every process that creates one. With them the
students of `benchmarks/distill.py` take 44.0 s instead of 40.0 (best of three). So the learning rate is an argument of
a step.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor
from torch.optim.sgd import sgd

from aggregator.fusion.numerics.adam import Adam, lying_as
from aggregator.recipes.catalogue import Distillation

__all__ = ["Optimizer", "make_optimizer", "rate"]

SWA_EPOCHS = 10  # over which torch's SWALR anneals from one rate to the other


class Optimizer(Protocol):
    """Updates the parameters that it was constructed with."""

    def step(self, grads: list[Tensor], lr: float) -> None:
        """One step; `grads` may be overwritten."""


class _Adam:
    """Adam with one weight decay."""

    def __init__(self, params: list[Tensor], weight_decay: float) -> None:
        self.params, self.weight_decay = params, weight_decay
        self.adam = Adam.fresh(params)

    def step(self, grads: list[Tensor], lr: float) -> None:
        self.adam.step(self.params, grads, lr=lr, weight_decay=self.weight_decay)


class _Sgd:
    """w <- w - eta v,   v <- beta v + g + lambda w."""

    def __init__(self, params: list[Tensor], momentum: float, weight_decay: float) -> None:
        self.params, self.momentum, self.weight_decay = params, momentum, weight_decay
        self.velocity: list[Tensor | None] = [None] * len(params)  # created by torch in the first step

    @torch.no_grad()
    def step(self, grads: list[Tensor], lr: float) -> None:
        sgd(
            self.params,
            [lying_as(p, g) for p, g in zip(self.params, grads, strict=True)],
            self.velocity,
            fused=self.params[0].device.type in ("cpu", "cuda"),
            lr=lr,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )


def make_optimizer(params: list[Tensor], config: Distillation) -> Optimizer:
    """The optimizer named by `how`, with empty state: each round starts a new one."""
    if config.optimizer == "adam":
        return _Adam(params, config.weight_decay)
    return _Sgd(params, config.momentum, config.weight_decay)


def rate(config: Distillation, taken: int, steps: int, epoch: int) -> float:
    """The learning rate of the step after `taken` of `steps`, in epoch `epoch` (from 0).

    cosine     lr (1 + cos(pi j / J)) / 2, from step to step
    constant   lr
    swa        lr a + swa_lr (1 - a), a = (1 + cos(pi epoch / 10)) / 2: torch's SWALR, as in FedRAD's code
    """
    if config.schedule == "cosine":
        return config.lr * (1 + math.cos(math.pi * taken / steps)) / 2
    if config.schedule == "constant":
        return config.lr
    share = (1 + math.cos(math.pi * min(epoch / SWA_EPOCHS, 1))) / 2
    return config.lr * share + config.swa_lr * (1 - share)
