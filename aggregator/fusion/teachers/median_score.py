"""FedRAD's median scores: how often a device's own logit is the median (Sturluson et al. 2021, Algorithm 1).

    s_k = #{(x, c): f(w_k, x)_c is the median over k} / #{(x, c)}          one device per (x, c), so sum_k s_k = 1
    weight of device k  =  s_k^p n_k / sum_j s_j^p n_j                      p = 1 in the paper

The power p is our addition (`score_power`): attackers with a third of an honest device's score get a ninth of its
weight at p = 2. A device that is often the median over samples and classes is likely honest; noise and flipped labels
give extreme logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from aggregator.fusion.options import real
from core.errors import RoundError

if TYPE_CHECKING:
    from aggregator.fusion.types import View

__all__ = ["count_medians", "median_score"]


def count_medians(logits: Tensor, medians: Tensor) -> Tensor:
    """Number of `medians` (B, C) that are each teacher's own, (K,); ties are credited to the first teacher.

    FedRAD's code uses the index returned by torch.median, which is arbitrary among equals.
    """
    free = torch.ones_like(medians, dtype=torch.bool)
    counts = []
    for own in logits:
        hit = (own == medians) & free
        counts.append(int(hit.sum()))
        free &= ~hit
    return torch.tensor(counts)


def median_score(view: View) -> Sequence[float]:
    """Weigh part: s_k^p n_k. If no device of this prototype is ever the median, n_k."""
    if view.ensemble is None:
        raise RoundError(f"{view.spec}: median scores need unlabeled samples; give the fusion a source")
    pairs = list(zip(view.ensemble.devices, view.ensemble.scores().tolist(), strict=True))
    scores = dict(reversed(pairs))  # for a device that also teaches with a late model, the first
    power = real(view, "score_power", 1.0, low=0.0)
    weights = [scores.get(update.device, 0.0) ** power * update.num_examples for update in view.updates]
    return weights if sum(weights) > 0 else [float(n) for n in view.num_examples]
