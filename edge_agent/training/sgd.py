"""Local training on a device: a flat loop, tensors in, tensors out.

No DataLoader and no `torch.optim`: the first use of the latter imports 70 MB and takes a second, too much for a board
with 1 GB. Steps are taken by a trainer (`edge_agent/training/trainer.py`), on the device where the model is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.errors import ConfigError
from edge_agent.training.batches import Samples
from edge_agent.training.fast.select import fast_trainer
from edge_agent.training.params import LocalTraining
from edge_agent.training.schedule import Trained, schedule
from edge_agent.training.trainer import Autograd, LossFunction, Objective, Trainer
from models.on_device import device_of
from quant.spectral import torchs_own

__all__ = ["Objective", "Trained", "batches", "train_local"]


def batches(n: int, batch_size: int, generator: torch.Generator, *, first: int = 0) -> Iterator[Tensor]:
    """Index tensors of one epoch, reshuffled; the last, smaller batch is kept unless it has one sample.

    `first` is the number of the first sample.

    BatchNorm cannot normalise one sample, and dropping it costs at most one of n; a device with a single sample keeps
    it.
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
    loss_fn: LossFunction = F.cross_entropy,
    objective: Objective | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    order: Iterable[Tensor] | None = None,
) -> Trained:
    """Train `model` in place on `x`, `y`, which may lie on the CPU or on the model's device.

    w <- w - eta * v,  v <- beta * v + clipped(grad) + lambda * w + mu * (w - w_received)

    grad is that of `loss_fn(logits, y)`, or of `objective(model, x, y)` if there is one; see
    `edge_agent/training/clipping.py`. `should_stop` is called before every step: at a deadline the device keeps the
    model as trained so far. With `how.fast = "off"` no hand-written fast path is used. `order` replaces the
    mini-batches that `generator` and `how` would give, as indices; the loss of all of them counts.
    """
    if len(x) == 0:
        raise ConfigError("local training: the device has no samples")
    model.train()
    samples = Samples(x, y, device_of(model))
    off = how.fast == "off"
    fast = None if off else fast_trainer(model, x, y, how, loss_fn, objective)
    trainer: Trainer = Autograd(model, how, loss_fn, objective) if fast is None else fast
    total, counted, steps = samples.zero(), 0, 0
    shuffled = schedule(lambda: batches(len(x), how.batch_size, generator), how)
    with torchs_own() if off else nullcontext():
        for counts, chosen in shuffled if order is None else ((True, chosen) for chosen in order):
            if should_stop():
                return Trained(total.item() / max(counted, 1), steps, True)
            trainer.step(*samples.take(chosen), total if counts else None)
            steps += 1
            counted += counts
    return Trained(total.item() / max(counted, 1), steps, False)
