"""Devices of a round that were lost, in words: who, how many of how many, why, and what to do. Imports no torch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from wire.local_defaults import CLIP, auto_lr

if TYPE_CHECKING:
    from fleet.runs import RoundResult

__all__ = ["FATAL", "NOTABLE", "exploded", "lost_in_all", "lost_text", "named", "remedy"]

NOTABLE = 0.1  # share of the asked devices above which it is worth a warning
FATAL = 0.5  # and above which a run is of no use
NAMED = 4
HIGH = 10  # times the loss of guessing: no model that learns has it


def named(devices: Iterable[str]) -> str:
    """
    >>> named(["a", "b", "c", "d", "e", "f"]), named(["a"])
    ('a, b, c, d and 2 more', 'a')
    """
    names = sorted(devices)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def lost_text(lost: Mapping[str, str], asked: int) -> str:
    """`3 of 30 devices lost: sim-01, sim-04, sim-07: ` and the reason that most of them have."""
    reason, _ = Counter(lost.values()).most_common(1)[0]
    others = len(set(lost.values())) - 1
    more = f" (and {others} other reason{'s' * (others > 1)})" if others else ""
    return f"{len(lost)} of {asked} devices lost: {named(lost)}: {reason}{more}"


def lost_in_all(rounds: Iterable[RoundResult]) -> str:
    """How many updates all rounds have missed, with the last of the reasons; nothing where none was."""
    each = [(result, result.lost) for result in rounds if result.lost]
    if not each:
        return ""
    count, devices = sum(len(lost) for _, lost in each), {device for _, lost in each for device in lost}
    last, lost = each[-1]
    return f"{count} updates lost, of {named(devices)}; in round {last.round}, {lost_text(lost, last.asked)}"


def exploded(result: RoundResult, classes: int) -> dict[str, float]:
    """Prototypes whose devices' mean loss is more than ten times ln C, the loss of guessing among C classes.

    With clipped gradients no weight becomes NaN where the learning rate is absurd; the model is of no use all the same.
    """
    bound = HIGH * math.log(max(classes, 2))
    losses = {name: p.train_loss for name, p in result.prototypes.items() if p.train_loss is not None}
    return {name: loss for name, loss in losses.items() if loss > bound}


def remedy(training: Mapping[str, Any], *, lr: str = "--lr", clip: str = "--clip") -> str:
    """What helps where training diverges, by what it is now; `lr` and `clip` are how the user sets them."""
    rate = float(training["lr"])
    usual = auto_lr(int(training["batch_size"]), float(training["momentum"]))
    said = f"where training diverges, a smaller learning rate helps: {lr} is {rate:g}, try {min(usual, rate / 10):.3g}"
    return said if training.get("clip") else f"{said}; and so does {clip} {CLIP:g}, which is off"
