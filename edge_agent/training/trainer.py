"""The seam of local SGD: a trainer takes the steps, and `sgd.py` decides on which mini-batches.

    Autograd                  any model and objective; the reference for the others
    fast/perceptron.py        perceptrons, with dropout or without, whose layers need no autograd
    fast/fused_step.py        large linear layers take their step within the backward pass

`fast/select.py` chooses; with `fast = "off"` every step is taken by `Autograd`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from edge_agent.training.clipping import clip_
from edge_agent.training.params import LocalTraining
from models.channels import channels_last_
from models.compute_device import autocast, widened
from models.on_device import device_of

__all__ = ["Autograd", "LossFunction", "Objective", "Trainer"]

#: (logits, y) -> the mean loss of a mini-batch.
LossFunction = Callable[[Tensor, Tensor], Tensor]
#: The loss of one batch if it needs more than logits and labels: (model, x, y), called once per step, in order.
Objective = Callable[[Any, Tensor, Tensor], Tensor]


class Trainer(Protocol):
    """Takes the steps of SGD on one model."""

    def step(self, x: Tensor, y: Tensor, total: Tensor | None) -> None:
        """One step on a mini-batch; its loss is added to `total`."""


class Autograd:
    """The plain trainer: steps of any model, through autograd."""

    def __init__(
        self,
        model: nn.Module,
        how: LocalTraining,
        loss_fn: LossFunction,
        objective: Objective | None,
    ) -> None:
        self._model, self._how, self._loss_fn, self._objective = model, how, loss_fn, objective
        self._channels_last, self._device = channels_last_(model), device_of(model)
        self._params: list[Tensor] = [p for p in model.parameters() if p.requires_grad]
        self._received = [p.detach().clone() for p in self._params] if how.prox else []
        self._velocity = [torch.zeros_like(p) for p in self._params] if how.momentum else []

    def step(self, x: Tensor, y: Tensor, total: Tensor | None) -> None:
        """One step on a mini-batch; its loss is added to `total`."""
        if self._channels_last and x.ndim == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        with self._within_step() as moved:
            with autocast(self._device, self._how.amp):
                if self._objective is None:
                    loss = self._loss_fn(widened(self._model(x)), y)
                else:
                    loss = self._objective(self._model, x, y)
            found = torch.autograd.grad(loss, self._params, allow_unused=True)
        rest = [(p, g) for p, g in zip(self._params, found, strict=True) if id(p) not in moved]
        if rest:
            grads = [torch.zeros_like(p) if g is None else g for p, g in rest]
            if self._how.clip:
                clip_(grads, self._how.clip)
            _step([p for p, _ in rest], grads, self._velocity, self._received, self._how)
        if total is not None:
            total.add_(loss.detach())

    def _within_step(self) -> AbstractContextManager[set[int]]:
        """A context around forward and backward of a step: yields the ids of the parameters updated within it."""
        return nullcontext(set())


@torch.no_grad()
def _step(
    params: list[Tensor],
    updates: list[Tensor],
    velocity: list[Tensor],
    received: list[Tensor],
    how: LocalTraining,
) -> None:
    """One SGD step on all tensors at once (`_foreach`: one call instead of one per tensor)."""
    if how.weight_decay:
        torch._foreach_add_(updates, params, alpha=how.weight_decay)
    if received:
        torch._foreach_add_(updates, params, alpha=how.prox)
        torch._foreach_add_(updates, received, alpha=-how.prox)
    if velocity:
        torch._foreach_mul_(velocity, how.momentum)
        torch._foreach_add_(velocity, updates)
        updates = velocity
    torch._foreach_add_(params, updates, alpha=-how.lr)
