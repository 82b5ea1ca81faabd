"""Computation of lambda, the weights of FedMGDA+ and FedMGDA++, as pure functions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

__all__ = ["Pace", "common_direction", "cut_off", "lambda_step", "lambda_steps_in_turn", "nearest_share"]

MOMENTUM = 0.5
ROUNDING = 1e-9  # relative difference of lambdas for equal distances
STEPS, SETTLED = 500, 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The learning rate of lambda, and the number of deviations below the mean that block a device."""

    lr: float = 0.1
    multiplier: float = 1.5
    error: float = 1.0  # of the last but one model
    newly: int = 0  # blocked in the last round

    def adapted(self, error: float | None) -> Pace:
        """The pace after a round that ended with `error` (None: not measured).

        s devices were blocked:  lr * 0.9^s, multiplier * 1.05^s
        error not better:        lr * 1.3,   multiplier / 1.05
        error better:            lr * 0.9
        """
        now = replace(self, error=self.error if error is None else error, newly=0)
        if self.newly:
            return replace(now, lr=self.lr * 0.9**self.newly, multiplier=self.multiplier * 1.05**self.newly)
        if error is None:
            return now
        if error >= self.error:
            return replace(now, lr=self.lr * 1.3, multiplier=self.multiplier / 1.05)
        return replace(now, lr=self.lr * 0.9)


def lambda_step(distances: Tensor, start: Tensor, lr: float) -> Tensor:
    """lambda_i - lr d_i / max(lambda): one step for all devices at once, on L_i = d_i lambda_i / max(lambda).

    d_i = ||w_i - w_global||. The maximum is treated as a constant, so every distant device is lowered.
    """
    return start - lr * distances / start.max()


def lambda_steps_in_turn(distances: Tensor, start: Tensor, lr: float) -> Tensor:
    """The variant of FedRAD's code: SGD with momentum 0.5, one step for each device in turn, on all lambdas.

        L_i = d_i |lambda_i / max(lambda)|

    Here the maximum has a gradient too, shared among ties: the other lambdas increase. By its turn, the last device's
    lambda exceeds all others, is itself the maximum, and so is never lowered, however distant the device is.
    """
    weights, velocity = start.clone(), torch.zeros_like(start)
    for i, d in enumerate(distances):
        if weights[i] == 0:
            continue
        top = weights.max()
        ties = (weights == top).to(weights.dtype)
        gradient = -ties / ties.sum() * weights[i] / top**2
        gradient[i] += 1 / top
        velocity = MOMENTUM * velocity + gradient * d * (weights[i] / top).sign()
        weights = weights - lr * velocity
    return weights


def cut_off(weights: Tensor, multiplier: float) -> Tensor:
    """Sets to 0 all that are not positive, then those below mean - multiplier * std of the rest; std divides by K -
    1."""
    kept = weights.clamp(min=0)
    positive = kept[kept > 0]
    if len(positive) < 2:
        return kept
    cut = positive.mean() * (1 - ROUNDING) - multiplier * positive.std()
    return torch.where(kept < cut, 0.0, kept)


def common_direction(products: Tensor, start: Tensor, epsilon: float) -> Tensor:
    """lambda* = argmin ||sum_k lambda_k g_k||^2  with  sum lambda = 1, lambda >= 0, |lambda_k - start_k| <= epsilon

    Hu et al. 2020 (FedMGDA+), equation 7, arXiv:2006.11489; `products` are <g_i, g_j> of the normalised directions.
    epsilon = 0 gives `start`, FedAvg; epsilon = 1 is MGDA, a common descent direction. Solved by projected gradients
    with a step of 1 / trace, which is at most 1 / the largest eigenvalue, so each step lowers the objective.
    """
    low, high = (start - epsilon).clamp(min=0), (start + epsilon).clamp(max=1)
    step = 1 / products.trace().clamp(min=torch.finfo(products.dtype).tiny)
    shares = start
    for _ in range(STEPS):
        following = nearest_share(shares - step * (products @ shares), low, high)
        if bool((following - shares).abs().max() < SETTLED):
            return following
        shares = following
    return shares


def nearest_share(point: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The nearest vector of sum 1 between `low` and `high`: clamp(point - t).

    Its sum decreases with t, piecewise linearly between the points where a coordinate reaches a bound.
    """
    edges = torch.cat([point - low, point - high]).sort().values
    sums = (point - edges[:, None]).clamp(low, high).sum(dim=1)
    after = min(max(int((sums > 1).sum()), 1), len(edges) - 1)  # the first edge whose sum is not above 1
    fall, way = sums[after - 1] - sums[after], edges[after] - edges[after - 1]
    t = edges[after - 1] + ((sums[after - 1] - 1) / fall * way if fall > 0 else 0.0)
    shares = (point - t).clamp(low, high)
    return shares / shares.sum()
