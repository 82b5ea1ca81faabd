"""The samples of distillation and their order, drawn before anything is computed."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from aggregator.recipes.catalogue import Distillation

__all__ = ["batches", "draw_samples", "num_steps"]


def draw_samples(n: int, config: Distillation, generator: torch.Generator) -> Tensor:
    """Indices of the samples that distillation will use, in increasing order: all `n`, or as many as its steps can
    draw.

    Chosen before the teachers run, so that they see no sample that no student uses.
    """
    config = config.sized(n)
    wanted = n if config.epochs else min(n, config.steps * config.batch_size)
    if wanted == n:
        return torch.arange(n)
    return torch.randperm(n, generator=generator)[:wanted].sort().values if config.shuffle else torch.arange(wanted)


def num_steps(n: int, config: Distillation) -> int:
    """The maximum number of steps of distillation on `n` samples."""
    config = config.sized(n)
    per_epoch = sum(1 for _ in _epoch(torch.arange(n), config.batch_size))
    return min(config.steps, config.epochs * per_epoch) if config.epochs else config.steps


def _epoch(order: Tensor, batch_size: int) -> Iterator[Tensor]:
    """The last, smaller batch is kept unless it has one sample, which BatchNorm cannot normalise."""
    for chosen in order.split(batch_size):
        if len(chosen) > 1 or batch_size == 1 or len(order) == 1:
            yield chosen


def batches(n: int, config: Distillation, generator: torch.Generator) -> Iterator[tuple[int, bool, Tensor]]:
    """(epoch, whether it ends with this batch, indices), an infinite sequence."""
    epoch = 0
    while True:
        order = torch.randperm(n, generator=generator) if config.shuffle else torch.arange(n)
        parts = list(_epoch(order, config.batch_size))
        for batch_number, chosen in enumerate(parts, start=1):
            yield epoch, batch_number == len(parts), chosen
        epoch += 1
