"""Norm bounding: updates that moved much further than the others are scaled back.

    d_k = || w_k - w ||                                              w the published model; no running statistics
    w_k <- w + (w_k - w) min(1, reach median_j d_j / d_k)            j over the devices of the same prototype

Norm bounding is a known defence (Sun et al. 2019, arXiv:1911.07963), there with a constant; with the median none is
needed. It is used for fleets without samples: there trust is computed from predictors, which carry no information about
extractors. One honest device whose training had diverged (3,700 times the median distance) ruined the model of its
prototype with a weight of 0.014. No device is excluded: one with ten times the samples may legitimately move further.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import median

from torch import Tensor

from aggregator.fusion.numerics.vectors import is_statistic
from aggregator.fusion.types import Received

__all__ = ["REACH", "drawn_back", "far_off"]

REACH = 5.0


def drawn_back(updates: Sequence[Received], previous: Mapping[str, Tensor], reach: float = REACH) -> list[Received]:
    """The updates of one prototype, whole models; those beyond `reach` medians are scaled back to that distance.

    `reach` 0: unchanged. Also unchanged if there are fewer than three, or if most have not moved at all: then the
    median is meaningless.
    """
    far = dict(far_off(updates, previous, reach))
    return [
        replace(update, state=partial(_nearer, update, previous, reach / far[update.device]))
        if update.device in far
        else update
        for update in updates
    ]


def far_off(
    updates: Sequence[Received], previous: Mapping[str, Tensor], reach: float = REACH
) -> list[tuple[str, float]]:
    """Devices that moved further than `reach` medians, and by how many; none if `drawn_back` changes nothing."""
    if not reach or len(updates) < 3:
        return []
    distances = [_distance(update.state(), previous) for update in updates]
    middle = median(distances)
    if not middle:
        return []
    return [(u.device, d / middle) for u, d in zip(updates, distances, strict=True) if d > reach * middle]


def _distance(state: Mapping[str, Tensor], previous: Mapping[str, Tensor]) -> float:
    """In double precision: squares of a faulty device's values would overflow."""
    moved = [(w.double() - previous[name]) for name, w in state.items() if not is_statistic(name)]
    return math.sqrt(sum(float(difference.square().sum()) for difference in moved))


def _nearer(update: Received, previous: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    return {name: previous[name].lerp(w, share) for name, w in update.state().items()}
