"""Averages of the devices' tensors, per prototype."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from aggregator.fusion.numerics.vectors import States
from aggregator.fusion.types import State, View
from core.errors import RoundError

__all__ = ["keep_previous", "mean", "trusted", "weighted_mean"]


def mean(view: View, weights: Sequence[float]) -> State:
    """The part `mean`: `weighted_mean` of the round's updates, one of them in memory at a time.

    If all weights are 0, no device is trusted (a round of only blocked devices), and the model does not change.
    """
    if not any(weights):
        return keep_previous(view)
    return weighted_mean(States(view.updates), weights)


def keep_previous(view: View) -> State:
    """A copy of the published model."""
    return {name: w.clone() for name, w in view.previous.items()}


def trusted(view: View, weights: Sequence[float]) -> States:
    """The states with a non-zero weight, for averages that ignore weights."""
    if len(weights) != len(view.updates):
        raise RoundError(f"{view.spec}: {len(weights)} weights of {len(view.updates)} updates")
    return States([update for update, weight in zip(view.updates, weights, strict=True) if weight > 0])


def weighted_mean(updates: Sequence[Mapping[str, Tensor]], weights: Sequence[float]) -> dict[str, Tensor]:
    """Weighted mean of the devices' tensors; with weights n_k this is FedAvg.

    w_{t+1} = sum_{k in S_t} (n_k / n) w_{t+1}^k      McMahan et al. 2017, Algorithm 1, arXiv:1602.05629

    n is summed over S_t, the devices that answered. BatchNorm's running statistics are averaged like other tensors.
    Inputs are not modified; the sum runs in the given order, so the same order gives the same bits. Updates of weight 0
    are not read: an infinite value in them would make the sum NaN.
    """
    total = float(sum(weights))
    if len(updates) != len(weights) or not updates or not total > 0:
        raise RoundError(f"average of {len(updates)} updates with {len(weights)} weights of sum {total}")
    mean: dict[str, Tensor] | None = None
    for k, weight in enumerate(weights):
        if not weight:
            continue
        update = updates[k]
        if mean is None:
            mean = {name: torch.zeros_like(w, dtype=torch.float32) for name, w in update.items()}
        if update.keys() != mean.keys():
            raise RoundError(f"updates of one prototype differ in {sorted(update.keys() ^ mean.keys())[:3]}")
        for name, w in update.items():
            mean[name].add_(w, alpha=weight / total)
    assert mean is not None, "the sum of the weights is positive"
    return mean
