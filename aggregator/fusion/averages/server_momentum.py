"""FedAvgM: momentum at the aggregator."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from aggregator.fusion.numerics.vectors import is_statistic
from aggregator.fusion.types import State, View
from core.errors import ConfigError

__all__ = ["momentum_step", "server_momentum"]


def server_momentum(view: View, average: State, beta: float) -> State:
    """The next model from the round's average; the velocity is kept as `momentum/<prototype>/<tensor>`.

    It starts at 0. Without momentum the average is returned unchanged.
    """
    if not 0 <= beta < 1:
        raise ConfigError(f"server_momentum = {beta} must be at least 0 and below 1")
    if beta == 0:
        return average
    prefix = f"momentum/{view.spec}/"
    kept = view.memory.tensors
    velocity = {
        name: kept[prefix + name]
        for name, w in average.items()
        if prefix + name in kept
        and kept[prefix + name].shape == w.shape  # a prototype may be redefined under the same name
    }
    state, velocity = momentum_step(view.previous, average, velocity, beta)
    kept.update({prefix + name: v for name, v in velocity.items()})
    return state


def momentum_step(
    previous: Mapping[str, Tensor], average: Mapping[str, Tensor], velocity: Mapping[str, Tensor], beta: float
) -> tuple[State, State]:
    """The next model and the next velocity; a missing velocity is 0.

        v <- beta v + (w_prev - w_avg)
        w <- w_prev - v                    Hsu et al. 2019, section 4.3, arXiv:1909.06335

    BatchNorm's running statistics are taken from the average: a variance that overshoots may be negative.
    """
    state: State = {}
    speed: State = {}
    for name, w in average.items():
        if is_statistic(name):
            state[name] = w
            continue
        before = previous[name].to(torch.float32)
        speed[name] = before - w if name not in velocity else (before - w).add_(velocity[name], alpha=beta)
        state[name] = before - speed[name]
    return state, speed
