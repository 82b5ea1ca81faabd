"""AFA, adaptive federated averaging (Muñoz-González et al. 2019, arXiv:1909.05125): trust in devices, updated each
round.

An update whose direction differs from the average is excluded; a device that is excluded too often is blocked
permanently. The memory of a device are the parameters of a Beta distribution over "its updates are good":

    facts["afa/<prototype>/trust"]     {device: [alpha, beta]}, 3 and 3 at first
    facts["afa/<prototype>/blocked"]   {device: round}
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from scipy.special import betainc
from torch import Tensor

from aggregator.fusion.numerics.geometry import gram
from aggregator.fusion.numerics.vectors import States
from aggregator.fusion.options import flag, real
from aggregator.fusion.types import View
from aggregator.fusion.weights.order import by_device

__all__ = ["afa", "blocked", "good_updates", "is_untrustworthy", "similarities"]

PRIOR = (3.0, 3.0)  # alpha_0, beta_0
XI, XI_STEP = 2.0, 0.25
CERTAINTY = 0.95  # delta
ROUNDING = 1e-12  # equal updates have equal similarities up to this


def blocked(view: View) -> list[str | None]:
    """The screen `afa-blocked`: exclude devices blocked in an earlier round."""
    since = view.memory.facts.get(f"afa/{view.spec}/blocked", {})
    return [f"blocked by afa since round {since[d]}" if d in since else None for d in view.devices]


@by_device
def afa(view: View) -> list[float]:
    """The part `afa`: n_k p_k for good updates, 0 for bad ones and for blocked devices; p_k = alpha / (alpha + beta).

    p_k is that of the previous rounds; then every device gains alpha or beta. Options: `afa_xi`, 2; `afa_xi_step`,
    0.25; `afa_reference`: as in FedRAD's code, p_k is alpha / beta after the round, and excluded updates enter the
    statistics with similarity 0. Weights are all 0 if only blocked devices answered: no device is trusted.
    """
    reference = flag(view, "afa_reference")
    memory, prefix = view.memory.facts, f"afa/{view.spec}/"
    trust: dict[str, list[float]] = dict(memory.get(prefix + "trust", {}))
    allowed = [why is None for why in blocked(view)]
    weights = _weights(view, trust, allowed, reference)
    if not any(weights):
        return weights
    good = good_updates(
        gram(States(view.updates)),
        weights,
        xi=real(view, "afa_xi", XI, low=0),
        step=real(view, "afa_xi_step", XI_STEP, low=0),
        reference=reference,
    )
    barred = dict(memory.get(prefix + "blocked", {}))
    for device, may, fine in zip(view.devices, allowed, good, strict=True):
        if may:
            alpha, beta = trust.get(device, PRIOR)
            trust[device] = [alpha + fine, beta + (not fine)]
            if is_untrustworthy(*trust[device]):
                barred[device] = view.round_number
    memory[prefix + "trust"], memory[prefix + "blocked"] = trust, barred
    return _weights(view, trust, good, reference) if reference else [w * g for w, g in zip(weights, good, strict=True)]


def _weights(view: View, trust: dict[str, list[float]], allowed: Sequence[bool], reference: bool) -> list[float]:
    weights = []
    for update, may in zip(view.updates, allowed, strict=True):
        alpha, beta = trust.get(update.device, PRIOR)
        score = alpha / beta if reference else alpha / (alpha + beta)
        weights.append(update.num_examples * score if may else 0.0)
    return weights


def is_untrustworthy(alpha: float, beta: float) -> bool:
    """Whether BetaCDF(0.5; alpha, beta) > 0.95: most of its updates are bad. First after 6 bad rounds in a row."""
    return bool(betainc(alpha, beta, 0.5) > CERTAINTY)


def similarities(products: Tensor, weights: Tensor) -> Tensor:
    """s_k = <w_k, w> / (||w_k|| ||w||) with w = sum_j p_j w_j, from the products <w_i, w_j> (K, K); of 0 it is 0."""
    along = products @ weights  # <w_k, w>
    norms = products.diagonal().sqrt() * (weights @ along).clamp(min=0).sqrt()
    return torch.where(norms > 0, along / norms.clamp(min=torch.finfo(torch.float64).tiny), 0.0)


def good_updates(
    products: Tensor, weights: Sequence[float], *, xi: float = XI, step: float = XI_STEP, reference: bool = False
) -> list[bool]:
    """Masks of the good updates (Algorithm 1); updates of weight 0 are bad, and ignored.

        w = sum p_k n_k w_k / sum p_k n_k over the good;   s_k = cos(w_k, w)
        mean(s) < median(s):  bad are those with s_k < median - xi std
        else                  bad are those with s_k > median + xi std
        again with xi + step, until none is bad

    For an even number the lower median is used; std divides by K - 1. The median is never bad, so at least one update
    is left. If a fraction q of devices sends large independent noise, they are the more similar ones, and xi = 2
    detects them as long as 2 sqrt(q (1 - q)) < 1: with margin at a fifth (0.8), barely at a third (0.94).

    Updates are compared only by their `products` (`geometry.gram`): they are read once, however many iterations there
    are.
    """
    share = torch.tensor(weights, dtype=torch.float64)
    good = share > 0
    while True:
        p = torch.where(good, share, 0.0)
        s = similarities(products, p / p.sum())
        bad = good & _beyond(s, torch.where(good, s, 0.0) if reference else s[good], xi)
        if not bad.any() or not (good & ~bad).any():
            return good.tolist()
        good &= ~bad
        xi += step


def _beyond(s: Tensor, known: Tensor, xi: float) -> Tensor:
    """Which of `s` lie too far on that side of the median of `known` where its mean is."""
    middle = known.median()
    slack = max(xi * float(known.std()) if len(known) > 1 else 0.0, ROUNDING)
    return s < middle - slack if known.mean() < middle else s > middle + slack
