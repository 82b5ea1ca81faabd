"""Weights that do not depend on the order of the updates, including rounding and ties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps

from aggregator.fusion.types import View

__all__ = ["by_device"]

Weigh = Callable[[View], list[float]]


def by_device(weigh: Weigh) -> Weigh:
    """The same part, applied to the updates in the order of their device ids; ties are broken by id."""

    @wraps(weigh)
    def ordered(view: View) -> list[float]:
        order = sorted(range(len(view.updates)), key=lambda k: view.updates[k].device)
        ordered_weights = weigh(replace(view, updates=[view.updates[k] for k in order]))
        weights = [0.0] * len(order)
        for place, weight in zip(order, ordered_weights, strict=True):
            weights[place] = weight
        return weights

    return ordered
