"""Failures of a simulated run: devices without an update, exploding losses, models at chance level.

Imports no torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from core.lost_devices import lost_text, named

if TYPE_CHECKING:
    from fleet.results.run_file import RoundResult, Run

__all__ = ["attackers_share", "exploded", "guessing", "guessing_text", "lost_in_all", "near_guessing"]

HIGH = 10  # times the loss of random guessing: no model that learns exceeds it


def lost_in_all(rounds: Iterable[RoundResult]) -> str:
    """A text with the number of updates lost in all rounds and the last reason; empty if none was lost."""
    each = [(result, result.lost) for result in rounds if result.lost]
    if not each:
        return ""
    last, lost = each[-1]
    if len(each) == 1:
        return f"round {last.round}: {lost_text(lost, last.asked)}"
    count, devices = sum(len(lost) for _, lost in each), {device for _, lost in each for device in lost}
    return f"{count} updates lost, of {named(devices)}; the last in round {last.round}: {lost_text(lost, last.asked)}"


def exploded(result: RoundResult, classes: int) -> dict[str, float]:
    """Prototypes whose mean training loss exceeds ten times ln C, the loss of random guessing among C classes.

    With clipped gradients no weight becomes NaN if the learning rate is far too high, but the model is useless.
    """
    bound = HIGH * math.log(max(classes, 2))
    losses = {name: p.train_loss for name, p in result.prototypes.items() if p.train_loss is not None}
    return {name: loss for name, loss in losses.items() if loss > bound}


def guessing(result: RoundResult, labels: Sequence[Sequence[int]]) -> dict[str, float]:
    """Prototypes with an accuracy that is `near_guessing`; where devices keep models of their own, theirs count."""
    bound = near_guessing(labels)
    return {name: p.quality for name, p in result.prototypes.items() if p.quality < bound}


def near_guessing(labels: Sequence[Sequence[int]]) -> float:
    """The accuracy below which a model is little better than guessing, by the label counts of all devices.

    min(2 g, g + 0.1), where g is that of always answering the most frequent label; 0 without counts

    >>> near_guessing([[5, 5], [5, 5]]), near_guessing([[1] * 10]), near_guessing([])
    (0.6, 0.2, 0.0)
    """
    counts = [sum(column) for column in zip_longest(*labels, fillvalue=0)]
    if not sum(counts):
        return 0.0
    guess = max(counts) / sum(counts)
    return min(2 * guess, guess + 0.1)


def guessing_text(accuracies: Mapping[str, float]) -> str:
    """
    >>> guessing_text({"cnn:w1": 0.097})
    'after the last round, cnn:w1 9.7 %: little better than guessing'
    """
    listed = ", ".join(f"{name} {100 * accuracy:.1f} %" for name, accuracy in accuracies.items())
    return f"after the last round, {listed}: little better than guessing"


def attackers_share(run: Run) -> float:
    """The largest share of adversarial devices in the averages of any round so far, mean over the prototypes."""
    bad = [device["device"] for device in run.fleet if "attack" in device]
    shares = [
        sum(result.devices.get(name, {}).get("weight", 0.0) for name in bad) / max(len(result.prototypes), 1)
        for result in run.rounds
    ]
    return max(shares, default=0.0)
