"""The interface of engines, and engines by name."""

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
    """A device to train, and its local state."""

    device: int
    kept: Kept


@dataclass(frozen=True, slots=True)
class Scoring:
    """A model to score on the whole test set, at full precision or at the prototype's own."""

    prototype: str
    state: Artifact  # full precision
    quantized: bool


class Engine(Protocol):
    """Executes the devices' work, round by round."""

    def open(self, news: News) -> None:
        """Publish the round's message to all devices."""

    def train(self, batches: Sequence[Sequence[Task]], read: Callable[[Task, Answer], T]) -> Iterator[T]:
        """The results of `read` for every task's answer, in any order; `read` may be called in several threads at once.

        One worker executes the tasks of a batch, as one stacked computation.
        """

    def score(self, scorings: Sequence[Scoring]) -> list[Tally]:
        """One tally per scoring, summed over all batches in order."""

    @property
    def workers(self) -> int:
        """The number of parallel workers."""

    def ask_all(self, call: str, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The results of `call`, a `module:function`, for each request, in order; used to distill students."""

    def close(self) -> None:
        """Stop all processes of the engine."""


def make_engine(name: str, bench: Bench, *, workers: int = 0, address: str = "") -> Engine:
    """The engine `name`; `workers` 0 means one per core, `address` is that of a Ray cluster."""
    match name:
        case "inline":
            from fleet.engines.inline import Inline

            return Inline(bench)
        case "processes":
            if not hasattr(os, "fork"):
                raise ConfigError("engine 'processes' needs a system with fork(); use --engine inline")
            from fleet.engines.processes import Processes

            return Processes(bench, workers)
        case "ray":
            from fleet.engines.ray_cluster import OnRay

            return OnRay(bench, workers, address)
    raise ConfigError(f"engine {name!r}; known: inline processes ray")
