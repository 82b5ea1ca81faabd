"""Averages of the devices' tensors, per prototype."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from wire.errors import RoundError

__all__ = ["weighted_mean"]


def weighted_mean(updates: Sequence[Mapping[str, Tensor]], weights: Sequence[float]) -> dict[str, Tensor]:
    """Weighted mean of the devices' tensors; with weights n_k this is FedAvg.

    w_{t+1} = sum_{k in S_t} (n_k / n) w_{t+1}^k      McMahan et al. 2017, Algorithm 1, arXiv:1602.05629

    n is summed over S_t, the devices that answered. BatchNorm's running statistics are tensors like any other and are
    averaged too. Inputs are untouched; the sum runs in the given order, so the same order gives the same bits.
    """
    total = float(sum(weights))
    if len(updates) != len(weights) or not updates or not total > 0:
        raise RoundError(f"average of {len(updates)} updates with {len(weights)} weights of sum {total}")
    mean = {name: torch.zeros_like(w, dtype=torch.float32) for name, w in updates[0].items()}
    for update, weight in zip(updates, weights, strict=True):
        if update.keys() != mean.keys():
            raise RoundError(f"updates of one prototype differ in {sorted(update.keys() ^ mean.keys())[:3]}")
        for name, w in update.items():
            mean[name].add_(w, alpha=weight / total)
    return mean
