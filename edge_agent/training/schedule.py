"""The steps of local training, whatever computes them: torch or NumPy. Imports neither."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import TypeVar

from core.errors import DivergedError
from edge_agent.training.params import LocalTraining

__all__ = ["Trained", "clip_factor", "num_steps", "schedule"]

Indices = TypeVar("Indices")


@dataclass(frozen=True, slots=True)
class Trained:
    """What local training did."""

    loss: float  # mean over the last epoch's (or all steps') mini-batches
    steps: int
    stopped_early: bool


def num_steps(per_epoch: int, how: LocalTraining) -> int:
    """How many mini-batches a device trains on that has `per_epoch` of them.

    S = min(max(E per_epoch, S_least), S_most), or the steps that were asked for
    """
    if how.epochs is None:
        assert how.steps is not None
        return how.steps
    steps = max(how.epochs * per_epoch, how.least_steps)
    return min(steps, how.most_steps) if how.most_steps else steps


def schedule(epoch: Callable[[], Iterator[Indices]], how: LocalTraining) -> Iterator[tuple[bool, Indices]]:
    """(whether the loss is counted, indices) of every step; `epoch` gives the batches of one epoch, shuffled anew.

    The loss of the last epoch's worth of steps counts, or that of every step where steps are asked for.
    """
    batches = list(epoch())
    steps = num_steps(len(batches), how)
    uncounted = 0 if how.epochs is None else steps - len(batches)
    done = 0
    while True:
        for chosen in batches:
            yield done >= uncounted, chosen
            done += 1
            if done == steps:
                return
        batches = list(epoch())


def clip_factor(squared: float, most: float) -> float:
    """min(1, c / ||g||) from ||g||^2; 1 is exact. Where the norm is not finite, the training has diverged.

    No factor makes a step of such a gradient: NaN and infinity stay what they are.
    """
    if not isfinite(squared):
        raise DivergedError("training diverged: the gradient is not finite")
    norm = sqrt(max(squared, 0.0))  # a sum of products may be rounded below 0
    return 1.0 if norm <= most else most / norm
