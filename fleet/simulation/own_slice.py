"""Accuracy of a device's own model on its own label distribution and on the whole test set.

A device has few samples, and its label distribution differs from the fleet's. Its own slice is the whole test set,
weighted by the device's label distribution; nothing is sampled, so the figure is exact:

    a_k = sum_c p_k(c) acc_c(m_k),   p_k(c) = n_k(c) / sum_c' n_k(c')

m_k is the device's model after its training in the round, acc_c its accuracy on the test samples of class c, n_k(c) the
number of its training samples of that class, by their true labels. Sums go over the classes of the test set; a device
without any of these classes has no a_k. The whole accuracy of m_k weights every test sample equally. One pass over the
test set yields both.

The mean, worst and best of a prototype are taken over honest devices only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from aggregator.evaluate import Score

__all__ = ["OwnScore", "extremes", "own_score", "slice_accuracy", "spread_of", "with_scores"]


@dataclass(frozen=True, slots=True)
class OwnScore:
    """Accuracies of one device's own model."""

    own: float | None  # a_k; None: the test set has none of the device's classes
    whole: float

    def to_json(self) -> dict[str, float | None]:
        """The keys of a device in `run.json`."""
        return {"own_accuracy": self.own, "whole_accuracy": self.whole}


def slice_accuracy(correct: Sequence[int], of_test: Sequence[int], labels: Sequence[int]) -> float | None:
    """a_k, from correct predictions, test samples and training samples per class.

    >>> slice_accuracy([9, 0, 5], [10, 0, 10], [3, 50, 1])
    0.8
    """
    there = [(hits / n, count) for hits, n, count in zip(correct, of_test, labels, strict=True) if n]
    total = sum(count for _, count in there)
    return sum(accuracy * count for accuracy, count in there) / total if total else None


def own_score(score: Score, of_test: Sequence[int], labels: Sequence[int]) -> OwnScore:
    """Both accuracies, from one pass over the whole test set."""
    return OwnScore(slice_accuracy(score.correct, of_test, labels), score.accuracy)


def spread_of(scores: Sequence[OwnScore]) -> dict[str, Any]:
    """Mean, worst and best of both accuracies, by their keys in `PrototypeResult`; missing ones are omitted."""
    spread: dict[str, Any] = {}
    for name, values in (
        ("own", [score.own for score in scores if score.own is not None]),
        ("whole", [score.whole for score in scores]),
    ):
        if values:
            spread |= {f"{name}_accuracy": fmean(values), f"{name}_worst": min(values), f"{name}_best": max(values)}
    return spread


def with_scores(devices: Mapping[str, Mapping[str, Any]], own: Mapping[str, OwnScore]) -> dict[str, dict[str, Any]]:
    """The `devices` of a round in `run.json`, with the accuracies of their own models added."""
    return {name: {**facts, **(own[name].to_json() if name in own else {})} for name, facts in devices.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Extremes:
    """Mean, worst and best of one of the two accuracies."""

    mean: float
    worst: float
    worst_device: str
    best: float
    best_device: str


def extremes(devices: Mapping[str, Mapping[str, Any]], key: str) -> Extremes | None:
    """The extremes of `own_accuracy` or `whole_accuracy` in a round's `devices`; None if no device has it."""
    values = {name: float(facts[key]) for name, facts in sorted(devices.items()) if facts.get(key) is not None}
    if not values:
        return None
    worst, best = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
    return Extremes(
        mean=fmean(values.values()), worst=values[worst], worst_device=worst, best=values[best], best_device=best
    )
