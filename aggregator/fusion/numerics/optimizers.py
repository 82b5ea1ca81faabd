"""Adam or SGD on all tensors at once, gradient clipping, and learning-rate schedules, for students."""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor

from aggregator.fusion.numerics.adam import Adam
from aggregator.recipes.catalogue import Distillation
from core.errors import ConfigError, did_you_mean

__all__ = ["Optimizer", "clip_", "make_optimizer", "rate"]

SWA_EPOCHS = 10  # over which torch's SWALR walks from one rate to the other


class Optimizer(Protocol):
    """Moves the parameters that it was made with."""

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
        self.velocity = [torch.zeros_like(p) for p in params] if momentum else []

    def step(self, grads: list[Tensor], lr: float) -> None:
        if self.weight_decay:
            torch._foreach_add_(grads, self.params, alpha=self.weight_decay)
        if self.velocity:
            torch._foreach_mul_(self.velocity, self.momentum)
            torch._foreach_add_(self.velocity, grads)
            grads = self.velocity
        torch._foreach_add_(self.params, grads, alpha=-lr)


def make_optimizer(params: list[Tensor], how: Distillation) -> Optimizer:
    """The optimizer that `how` names, without a past: each round has a fresh one."""
    if how.optimizer == "adam":
        return _Adam(params, how.weight_decay)
    if how.optimizer == "sgd":
        return _Sgd(params, how.momentum, how.weight_decay)
    known = ("adam", "sgd")
    raise ConfigError(f"distillation: unknown optimizer {how.optimizer!r}{did_you_mean(how.optimizer, known)}")


def clip_(grads: list[Tensor], most: float) -> None:
    """Scale `grads` in place to a common norm of at most `most`."""
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
    torch._foreach_mul_(grads, (most / (norm + 1e-6)).clamp(max=1.0))


def rate(how: Distillation, taken: int, steps: int, epoch: int) -> float:
    """The learning rate of the step after `taken` of `steps`, in epoch `epoch` (from 0).

    cosine     lr (1 + cos(pi j / J)) / 2, from step to step
    constant   lr
    swa        lr a + swa_lr (1 - a), a = (1 + cos(pi epoch / 10)) / 2: torch's SWALR, as FedRAD's code has it
    """
    if how.schedule == "cosine":
        return how.lr * (1 + math.cos(math.pi * taken / steps)) / 2
    if how.schedule == "constant":
        return how.lr
    if how.schedule == "swa":
        share = (1 + math.cos(math.pi * min(epoch / SWA_EPOCHS, 1))) / 2
        return how.lr * share + how.swa_lr * (1 - share)
    known = ("cosine", "constant", "swa")
    raise ConfigError(f"distillation: unknown schedule {how.schedule!r}{did_you_mean(how.schedule, known)}")
