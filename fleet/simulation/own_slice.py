"""How good a device's own model is on data like its own, and on all data.

A device has few samples, and its labels are not those of the fleet. Its own slice is the whole test set, weighed as the
device's labels are; nothing is drawn, so the number is exact:

    a_k = sum_c p_k(c) acc_c(m_k),   p_k(c) = n_k(c) / sum_c' n_k(c')

m_k is the device's model after its training in the round, acc_c its accuracy on the test samples of class c, n_k(c) the
number of its training samples of that class, by their true labels. Sums go over the classes that the test set has; a
device none of whose classes are there has no a_k. The whole accuracy of m_k counts every test sample alike. One pass
over the test set gives both.

The mean, worst and best of a prototype are over honest devices: what an attacker's model is good for is nobody's loss.
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

    own: float | None  # a_k; None: the test set has none of its classes
    whole: float

    def to_json(self) -> dict[str, float | None]:
        """As `run.json` has it for a device."""
        return {"own_accuracy": self.own, "whole_accuracy": self.whole}


def slice_accuracy(correct: Sequence[int], of_test: Sequence[int], labels: Sequence[int]) -> float | None:
    """a_k, from correct answers, test samples and training samples by class.

    >>> slice_accuracy([9, 0, 5], [10, 0, 10], [3, 50, 1])
    0.8
    """
    there = [(hits / n, count) for hits, n, count in zip(correct, of_test, labels, strict=True) if n]
    total = sum(count for _, count in there)
    return sum(accuracy * count for accuracy, count in there) / total if total else None


def own_score(score: Score, of_test: Sequence[int], labels: Sequence[int]) -> OwnScore:
    """Both accuracies of a model that was scored once on the whole test set."""
    return OwnScore(slice_accuracy(score.correct, of_test, labels), score.accuracy)


def spread_of(scores: Sequence[OwnScore]) -> dict[str, Any]:
    """Mean, worst and best of both, as `PrototypeResult` has them; what nobody has is left out."""
    found: dict[str, Any] = {}
    for name, values in (
        ("own", [score.own for score in scores if score.own is not None]),
        ("whole", [score.whole for score in scores]),
    ):
        if values:
            found |= {f"{name}_accuracy": fmean(values), f"{name}_worst": min(values), f"{name}_best": max(values)}
    return found


def with_scores(devices: Mapping[str, Mapping[str, Any]], own: Mapping[str, OwnScore]) -> dict[str, dict[str, Any]]:
    """A round's `devices` as `run.json` has them, each with the accuracies of its own model."""
    return {name: {**facts, **(own[name].to_json() if name in own else {})} for name, facts in devices.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Extremes:
    """One of the two accuracies over several devices."""

    mean: float
    worst: float
    worst_device: str
    best: float
    best_device: str


def extremes(devices: Mapping[str, Mapping[str, Any]], key: str) -> Extremes | None:
    """Of `own_accuracy` or `whole_accuracy` in a round's `devices`; None where no device has it."""
    found = {name: float(facts[key]) for name, facts in sorted(devices.items()) if facts.get(key) is not None}
    if not found:
        return None
    worst, best = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
    return Extremes(
        mean=fmean(found.values()), worst=found[worst], worst_device=worst, best=found[best], best_device=best
    )
