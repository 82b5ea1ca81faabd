"""Local training on a device: a flat loop, tensors in, tensors out.

No DataLoader and no `torch.optim`: the first use of the latter imports 70 MB and takes a second, which a board with
1 GB has better use for. Plain perceptrons go without autograd too (`edge_agent/training/fast/perceptron.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.errors import ConfigError
from edge_agent.training.clipping import clip_
from edge_agent.training.fast.fused_step import Stepping, layers_that_may
from edge_agent.training.fast.perceptron import Chain, chain_of
from edge_agent.training.params import LocalTraining
from edge_agent.training.schedule import Trained, schedule
from models.channels import channels_last_

__all__ = ["Objective", "Trained", "batches", "train_local"]

#: The loss of one batch where it needs more than logits and labels: (model, x, y), called once per step, in order.
Objective = Callable[[Any, Tensor, Tensor], Tensor]


def batches(n: int, batch_size: int, generator: torch.Generator, *, first: int = 0) -> Iterator[Tensor]:
    """Index tensors of one epoch, reshuffled; the last, smaller batch is kept unless it has one sample.

    `first` is the number of the first sample.

    BatchNorm cannot normalise one sample, and dropping it costs at most one of n; a device that owns a single sample
    keeps it.
    """
    order = torch.randperm(n, generator=generator)
    order += first
    for start in range(0, n, batch_size):
        chosen = order[start : start + batch_size]
        if len(chosen) > 1 or n == 1 or batch_size == 1:
            yield chosen


def train_local(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    how: LocalTraining,
    *,
    generator: torch.Generator,
    loss_fn: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
    objective: Objective | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Trained:
    """Train `model` in place on `x`, `y`.

    w <- w - eta * v,  v <- beta * v + clipped(grad) + lambda * w + mu * (w - w_received)

    grad is that of `loss_fn(logits, y)`, or of `objective(model, x, y)` if there is one; see
    `edge_agent/training/clipping.py`. `should_stop` is asked before every step: at a deadline the device keeps what it
    has learned so far.
    """
    if len(x) == 0:
        raise ConfigError("local training: the device has no samples")
    model.train()
    plain = objective is None and loss_fn is F.cross_entropy and x.dtype == torch.float32 and y.ndim == 1
    layers = chain_of(model) if plain else None
    step = _Autograd(model, how, loss_fn, objective).step if layers is None else Chain(layers, how).step
    total, counted, steps = torch.zeros((), dtype=torch.float64), 0, 0
    for counts, chosen in schedule(lambda: batches(len(x), how.batch_size, generator), how):
        if should_stop():
            return Trained(total.item() / max(counted, 1), steps, True)
        step(x.index_select(0, chosen), y.index_select(0, chosen), total if counts else None)
        steps += 1
        counted += counts
    return Trained(total.item() / max(counted, 1), steps, False)


class _Autograd:
    """Steps of any model, through autograd."""

    def __init__(
        self,
        model: nn.Module,
        how: LocalTraining,
        loss_fn: Callable[[Tensor, Tensor], Tensor],
        objective: Objective | None,
    ) -> None:
        self._model, self._how, self._loss_fn, self._objective = model, how, loss_fn, objective
        self._channels_last = channels_last_(model)
        self._params: list[Tensor] = [p for p in model.parameters() if p.requires_grad]
        self._received = [p.detach().clone() for p in self._params] if how.prox else []
        self._velocity = [torch.zeros_like(p) for p in self._params] if how.momentum else []
        # an objective may ask for gradients of its own, or call a layer for something else
        self._stepping = Stepping([] if objective is not None else layers_that_may(model, how), how)

    def step(self, x: Tensor, y: Tensor, total: Tensor | None) -> None:
        """One step on a mini-batch; its loss is added to `total`."""
        if self._channels_last and x.ndim == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        with self._stepping.within() as moved:
            if self._objective is None:
                loss = self._loss_fn(self._model(x), y)
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
