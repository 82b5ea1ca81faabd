"""The schedule of local training steps, shared by torch and NumPy. Imports neither."""

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
    """The result of local training."""

    loss: float  # mean over the last epoch's (or all steps') mini-batches
    steps: int
    stopped_early: bool


def num_steps(per_epoch: int, how: LocalTraining) -> int:
    """Number of mini-batches for a device with `per_epoch` mini-batches per epoch.

    S = min(max(E per_epoch, S_least), S_most), or the given number of steps
    """
    if how.epochs is None:
        assert how.steps is not None
        return how.steps
    steps = max(how.epochs * per_epoch, how.least_steps)
    return min(steps, how.most_steps) if how.most_steps else steps


def schedule(epoch: Callable[[], Iterator[Indices]], how: LocalTraining) -> Iterator[tuple[bool, Indices]]:
    """(whether the loss is counted, indices) of every step; `epoch` returns the reshuffled batches of one epoch.

    The loss is averaged over the steps of the last epoch, or over all steps if `steps` is given.
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
    """min(1, c / ||g||) from ||g||^2; 1 is exact. If the norm is not finite, training has diverged.

    Such a gradient cannot be clipped: NaN and infinity stay NaN and infinity.
    """
    if not isfinite(squared):
        raise DivergedError("training diverged: the gradient is not finite")
    norm = sqrt(max(squared, 0.0))  # a sum of products may be rounded below 0
    return 1.0 if norm <= most else most / norm
