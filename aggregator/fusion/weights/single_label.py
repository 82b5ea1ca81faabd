"""Devices that teach one label and nothing else, found by the biases of their predictors alone.

The gradient of a predictor's bias is p(c) minus the share of label c in the batch, so the drift of the bias in a round
tells which labels a device trained with more than the others. With b_k the bias that device k sent:

    r_k = b_k - median_j b_j, less its mean over the classes          what is device k's own
    l_k = max_c r_kc^2 / sum_c r_kc^2                                  its leaning, for the class of max r_kc

A device that has one label only comes to (C - 1) / C, two labels alike to less than half. A single round is noisy, so
l_k is averaged over all rounds in which the device answered, with one round of `PRIOR` before. Left out is who leans

    mean l_k > cut (C - 1) / C        and        mean l_k > RATIO median_j mean l_j        j of the same prototype

The second condition spares fleets in which everybody has one label. This finds devices that label everything alike; it
does not find those whose labels are wrong in a balanced way (label-flip), nor can it tell an honest device that has a
single label, where the others have many, from a malicious one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

import torch
from torch import Tensor

from aggregator.fusion.types import Memory, Received

__all__ = ["CUT", "leaning", "mean_leaning", "one_sided"]

CUT, RATIO = 0.6, 1.25
PRIOR = 0.4
_FACT = "trust.leaning"  # device: [sum of l_k, rounds]


def leaning(biases: Tensor) -> Tensor:
    """l_k (K,) of biases (K, C); 0 where a device has nothing of its own."""
    own = biases - biases.median(0).values
    own = own - own.mean(1, keepdim=True)
    scale = own.abs().amax(1, keepdim=True).clamp(min=torch.finfo(own.dtype).tiny)
    own = own / scale  # squares of what a faulty device sends would overflow
    return own.amax(1).clamp(min=0).square() / own.square().sum(1).clamp(min=1e-12)


def mean_leaning(updates: Sequence[Received], memory: Memory) -> dict[str, float]:
    """The mean over rounds of the updates' devices, this round's among them; `memory` is brought up to date."""
    if len(updates) < 3:  # whose own is the drift, if there are two?
        return {}
    found = leaning(torch.stack([update.state()["predictor.bias"].float() for update in updates])).tolist()
    kept: dict[str, list[float]] = memory.facts.setdefault(_FACT, {})
    means = {}
    for update, value in zip(updates, found, strict=True):
        total, rounds = kept.get(update.device, (0.0, 0))
        kept[update.device] = [total + value, rounds + 1]
        means[update.device] = (total + value + PRIOR) / (rounds + 2)
    return means


def one_sided(means: Mapping[str, float], classes: int, cut: float = CUT) -> set[str]:
    """Who is left out, of one prototype's devices."""
    if not means:
        return set()
    least = max(cut * (classes - 1) / classes, RATIO * median(means.values()))
    return {device for device, value in means.items() if value > least}
