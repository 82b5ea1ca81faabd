"""The steps of local training, whatever computes them: torch or NumPy. Imports neither."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from edge_agent.hyper import LocalTraining

__all__ = ["Trained", "schedule"]

Indices = TypeVar("Indices")


@dataclass(frozen=True, slots=True)
class Trained:
    """What local training did."""

    loss: float  # mean over the last epoch's (or all steps') mini-batches
    steps: int
    stopped_early: bool


def schedule(epoch: Callable[[], Iterator[Indices]], how: LocalTraining) -> Iterator[tuple[bool, Indices]]:
    """(whether the loss is counted, indices) of every step; `epoch` gives the batches of one epoch, shuffled anew.

    The loss of the last epoch counts, or that of every step.
    """
    if how.steps is not None:
        done = 0
        while True:
            for chosen in epoch():
                yield True, chosen
                done += 1
                if done == how.steps:
                    return
    assert how.epochs is not None
    for number in range(how.epochs):
        for chosen in epoch():
            yield number == how.epochs - 1, chosen
