"""Updates that went much further than the others, drawn back to where they may do no harm.

    d_k = || w_k - w ||                                              w the published model; no running statistics
    w_k <- w + (w_k - w) min(1, reach median_j d_j / d_k)            j over the devices of the same prototype

Bounding norms is an old defence (Sun et al. 2019, arXiv:1911.07963), there with a constant; the median needs none. It
is for fleets without samples: there trust goes by predictors, which tell nothing of what an extractor has become. One
honest device whose training had diverged (it was 3,700 times as far as the median) undid the model of its prototype,
with a weight of 0.014. Nobody is left out: who has ten times the samples may go further for good reason.
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
    """The updates of one prototype, whole models; those beyond `reach` medians read as if they had stopped there.

    `reach` 0: as they are. So, too, where there are fewer than three, of which nobody is in the middle, and where most
    have not moved at all: then nothing says how far is far.
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
    """Who went further than `reach` medians, and how many medians; nobody where `drawn_back` draws nobody back."""
    if not reach or len(updates) < 3:
        return []
    distances = [_distance(update.state(), previous) for update in updates]
    middle = median(distances)
    if not middle:
        return []
    return [(u.device, d / middle) for u, d in zip(updates, distances, strict=True) if d > reach * middle]


def _distance(state: Mapping[str, Tensor], previous: Mapping[str, Tensor]) -> float:
    """In double precision: squares of what a faulty device sends would overflow."""
    moved = [(w.double() - previous[name]) for name, w in state.items() if not is_statistic(name)]
    return math.sqrt(sum(float(difference.square().sum()) for difference in moved))


def _nearer(update: Received, previous: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    return {name: previous[name].lerp(w, share) for name, w in update.state().items()}
