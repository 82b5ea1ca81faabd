"""What a simulated run has lost, over its rounds: devices without an update, and losses beyond all bounds.

Imports no torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from core.lost_devices import lost_text, named

if TYPE_CHECKING:
    from fleet.results.run_file import RoundResult

__all__ = ["exploded", "lost_in_all"]

HIGH = 10  # times the loss of guessing: no model that learns has it


def lost_in_all(rounds: Iterable[RoundResult]) -> str:
    """How many updates all rounds have missed, with the last of the reasons; nothing where none was."""
    each = [(result, result.lost) for result in rounds if result.lost]
    if not each:
        return ""
    last, lost = each[-1]
    if len(each) == 1:
        return f"round {last.round}: {lost_text(lost, last.asked)}"
    count, devices = sum(len(lost) for _, lost in each), {device for _, lost in each for device in lost}
    return f"{count} updates lost, of {named(devices)}; the last in round {last.round}: {lost_text(lost, last.asked)}"


def exploded(result: RoundResult, classes: int) -> dict[str, float]:
    """Prototypes whose devices' mean loss is more than ten times ln C, the loss of guessing among C classes.

    With clipped gradients no weight becomes NaN where the learning rate is absurd; the model is of no use all the same.
    """
    bound = HIGH * math.log(max(classes, 2))
    losses = {name: p.train_loss for name, p in result.prototypes.items() if p.train_loss is not None}
    return {name: loss for name, loss in losses.items() if loss > bound}
