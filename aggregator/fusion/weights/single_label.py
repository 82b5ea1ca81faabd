"""Single-label drift: detects devices that teach only one label, from the biases of their predictors.

The gradient of a predictor's bias is p(c) minus the fraction of label c in the batch, so the drift of the bias in a
round shows which labels a device trained with more than the others. With b_k the bias of device k's update:

    r_k = b_k - median_j b_j, minus its mean over the classes         specific to device k
    l_k = max_c r_kc^2 / sum_c r_kc^2                                  its drift, towards the class of max r_kc

A device with one label reaches (C - 1) / C, with two equally frequent labels less than half. A single round is noisy,
so l_k is averaged over all rounds in which the device answered, starting with one round of `PRIOR`. A device drifts if

    mean l_k > cut (C - 1) / C        and        mean l_k > RATIO median_j mean l_j        j of the same prototype

The second condition exempts fleets in which all devices have one label. This detects devices that label everything the
same; it does not detect labels that are wrong in a balanced way (label-flip), nor can it distinguish an honest device
with a single label, among others with many, from a malicious one.
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
    """l_k (K,) of biases (K, C); 0 if a device does not deviate."""
    own = biases - biases.median(0).values
    own = own - own.mean(1, keepdim=True)
    scale = own.abs().amax(1, keepdim=True).clamp(min=torch.finfo(own.dtype).tiny)
    own = own / scale  # squares of a faulty device's values would overflow
    return own.amax(1).clamp(min=0).square() / own.square().sum(1).clamp(min=1e-12)


def mean_leaning(updates: Sequence[Received], memory: Memory) -> dict[str, float]:
    """The mean over rounds for the updates' devices, including this round; updates `memory`."""
    if len(updates) < 3:  # with two devices the median does not show which one drifts
        return {}
    leanings = leaning(torch.stack([update.state()["predictor.bias"].float() for update in updates])).tolist()
    kept: dict[str, list[float]] = memory.facts.setdefault(_FACT, {})
    means = {}
    for update, value in zip(updates, leanings, strict=True):
        total, rounds = kept.get(update.device, (0.0, 0))
        kept[update.device] = [total + value, rounds + 1]
        means[update.device] = (total + value + PRIOR) / (rounds + 2)
    return means


def one_sided(means: Mapping[str, float], classes: int, cut: float = CUT) -> set[str]:
    """The drifting devices of one prototype."""
    if not means:
        return set()
    least = max(cut * (classes - 1) / classes, RATIO * median(means.values()))
    return {device for device, value in means.items() if value > least}
