"""What an engine does for a simulation, and engines by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from core.errors import ConfigError
from fleet.engines.work import Bench, Tally
from fleet.simulation.device import Answer, Kept
from fleet.simulation.round_message import Artifact, News

__all__ = ["Engine", "Scoring", "Task", "make_engine"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Task:
    """A device that is to train, and what it has kept."""

    device: int
    kept: Kept


@dataclass(frozen=True, slots=True)
class Scoring:
    """A model that is to be scored on the whole test set; at full precision, or at the prototype's own."""

    prototype: str
    state: Artifact  # full precision
    quantized: bool


class Engine(Protocol):
    """Does the devices' work, round by round."""

    def open(self, news: News) -> None:
        """Tell all devices what the round is about."""

    def train(self, batches: Sequence[Sequence[Task]], read: Callable[[Task, Answer], T]) -> Iterator[T]:
        """What `read` makes of every task's answer, in any order; it may be called in several threads at once.

        The tasks of a batch are done by one worker, as one computation.
        """

    def score(self, scorings: Sequence[Scoring]) -> list[Tally]:
        """One tally for each, with all batches in order."""

    @property
    def workers(self) -> int:
        """How many pieces of work are done at once."""

    def ask_all(self, call: str, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The answers of `call`, a `module:function`, to each request, in order: students that distill."""

    def close(self) -> None:
        """End what was started."""


def make_engine(name: str, bench: Bench, *, workers: int = 0, address: str = "") -> Engine:
    """The engine `name`; `workers` 0 is one per core, `address` that of a Ray cluster."""
    match name:
        case "inline":
            from fleet.engines.inline import Inline

            return Inline(bench)
        case "processes":
            if not hasattr(os, "fork"):
                raise ConfigError("engine 'processes' needs a system that can fork; use --engine inline")
            from fleet.engines.processes import Processes

            return Processes(bench, workers)
        case "ray":
            from fleet.engines.ray_cluster import OnRay

            return OnRay(bench, workers, address)
    raise ConfigError(f"engine {name!r}; known: inline processes ray")
