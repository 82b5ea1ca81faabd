"""Local training on a device: a flat loop, tensors in, tensors out.

No DataLoader and no `torch.optim`: the first use of the latter imports 70 MB and takes a second, which a board with
1 GB has better use for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edge_agent.hyper import LocalTraining
from edge_agent.schedule import Trained, schedule
from wire.errors import ConfigError

__all__ = ["Objective", "Trained", "batches", "train_local"]

#: The loss of one batch where it needs more than logits and labels: (model, x, y), called once per step, in order.
Objective = Callable[[Any, Tensor, Tensor], Tensor]


def batches(n: int, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Index tensors of one epoch, reshuffled; the last, smaller batch is kept unless it has one sample.

    BatchNorm cannot normalise one sample, and dropping it costs at most one of n; a device that owns a single sample
    keeps it.
    """
    order = torch.randperm(n, generator=generator)
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

    w <- w - eta * v,  v <- beta * v + grad + lambda * w + mu * (w - w_received)

    grad is that of `loss_fn(logits, y)`, or of `objective(model, x, y)` if there is one. `should_stop` is asked before
    every step: at a deadline the device keeps what it has learned so far.
    """
    if len(x) == 0:
        raise ConfigError("local training: the device has no samples")
    model.train()
    params: list[Tensor] = [p for p in model.parameters() if p.requires_grad]
    received = [p.detach().clone() for p in params] if how.prox else []
    velocity = [torch.zeros_like(p) for p in params] if how.momentum else []
    total, counted, steps = 0.0, 0, 0
    for counts, chosen in schedule(lambda: batches(len(x), how.batch_size, generator), how):
        if should_stop():
            return Trained(total / max(counted, 1), steps, True)
        inputs, labels = x[chosen], y[chosen]
        loss = loss_fn(model(inputs), labels) if objective is None else objective(model, inputs, labels)
        _step(params, torch.autograd.grad(loss, params, materialize_grads=True), velocity, received, how)
        steps += 1
        if counts:
            total, counted = total + loss.item(), counted + 1
    return Trained(total / max(counted, 1), steps, False)


@torch.no_grad()
def _step(
    params: list[Tensor],
    grads: tuple[Tensor, ...],
    velocity: list[Tensor],
    received: list[Tensor],
    how: LocalTraining,
) -> None:
    """One SGD step on all tensors at once (`_foreach`: one call instead of one per tensor)."""
    updates = list(grads)
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
