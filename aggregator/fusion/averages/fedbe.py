"""FedBE: models sampled from a distribution around the devices' models (Chen & Chao 2021, arXiv:2009.01974).

Together with the received models and their mean they form a Bayesian model ensemble, whose mean probabilities teach.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from aggregator.fusion.averages.mean import trusted, weighted_mean
from aggregator.fusion.numerics.vectors import is_statistic
from aggregator.fusion.options import real
from aggregator.fusion.types import State, View
from core.errors import ConfigError

__all__ = ["dirichlet_models", "gaussian_models", "sample_models", "sampled_models"]

ALPHA = 0.1  # of the Dirichlet distribution, as in FedRAD's comparison


def sampled_models(view: View, weights: Sequence[float], method: str, count: int) -> list[State]:
    """`count` models of the prototype's round, without updates of weight 0. Option: `fedbe_alpha`."""
    alpha = real(view, "fedbe_alpha", ALPHA, low=1e-3)
    positive = [weight for weight in weights if weight > 0]
    return sample_models(trusted(view, weights), positive, method, count, view.rng("fedbe"), alpha=alpha)


def sample_models(
    states: Sequence[Mapping[str, Tensor]],
    weights: Sequence[float],
    method: str,
    count: int,
    generator: torch.Generator,
    *,
    alpha: float = ALPHA,
) -> list[State]:
    """`count` models, by `how`: "gaussian" or "dirichlet"."""
    if method == "gaussian":
        return gaussian_models(states, weights, count, generator)
    if method == "dirichlet":
        return dirichlet_models(states, weights, count, generator, alpha=alpha)
    raise ConfigError(f"sample = {method!r} must be 'gaussian' or 'dirichlet'")


def gaussian_models(
    states: Sequence[Mapping[str, Tensor]], weights: Sequence[float], count: int, generator: torch.Generator
) -> list[State]:
    """w ~ N(mu, diag(sigma^2)),  mu = sum_k p_k w_k,  sigma^2 = sum_k p_k (w_k - mu)^2      (section 3.3)

    p_k are the normalized weights. Tensors that must not become negative (running statistics, scales of activations)
    are set to their mean in every model.
    """
    mean = weighted_mean(states, weights)
    spread = _spread(states, weights, mean)
    models = []
    for _ in range(count):
        draws = {name: torch.randn(w.shape, generator=generator) for name, w in spread.items()}
        models.append(
            {name: mean[name] + draws[name] * spread[name] if name in spread else w.clone() for name, w in mean.items()}
        )
    return models


def _spread(states: Sequence[Mapping[str, Tensor]], weights: Sequence[float], mean: State) -> State:
    """sigma of every unconstrained coordinate."""
    total = float(sum(weights))
    variance = {name: torch.zeros_like(w) for name, w in mean.items() if not _positive(name)}
    for state, weight in zip(states, weights, strict=True):
        for name, sum_of_squares in variance.items():
            sum_of_squares.add_((state[name] - mean[name]).square(), alpha=weight / total)
    return {name: w.sqrt() for name, w in variance.items()}


def _positive(name: str) -> bool:
    return is_statistic(name) or name.endswith("scaling_impl.value")


def dirichlet_models(
    states: Sequence[Mapping[str, Tensor]],
    weights: Sequence[float],
    count: int,
    generator: torch.Generator,
    *,
    alpha: float = ALPHA,
) -> list[State]:
    """w = sum_k gamma_k p_k w_k / sum_k gamma_k p_k,  gamma ~ Dirichlet(alpha 1)      (section 3.3 and appendix)

    One gamma per model, for all of its coordinates. The smaller alpha, the closer each sample is to a single device's
    model.
    """
    rng = np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))
    share = np.asarray(weights, dtype=np.float64)
    mixed = rng.dirichlet([alpha] * len(share), size=count) * share  # (count, K)
    mixed /= mixed.sum(axis=1, keepdims=True)
    models: list[State] = [{} for _ in range(count)]
    for state, column in zip(states, mixed.T, strict=True):  # states may be on disk: each is read once
        for model, part in zip(models, column.tolist(), strict=True):
            for name, w in state.items():
                model.setdefault(name, torch.zeros_like(w, dtype=torch.float32)).add_(w, alpha=part)
    return models
