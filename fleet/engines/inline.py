"""Devices train one after another in this process: nothing to start, and easy to debug."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from aggregator.fusion import process_pool
from fleet.engines.base import Scoring, Task
from fleet.engines.work import Bench, Tally
from fleet.simulation.device import Answer
from fleet.simulation.round_message import News

__all__ = ["Inline"]

T = TypeVar("T")


class Inline:
    """See `fleet.engines.base.Engine`."""

    def __init__(self, work: Bench) -> None:
        self._bench = work

    def open(self, news: News) -> None:
        """Publish the round's message to all devices."""
        self._bench.open(news)

    def train(self, batches: Sequence[Sequence[Task]], read: Callable[[Task, Answer], T]) -> Iterator[T]:
        """Train the tasks in order."""
        for tasks in batches:
            answers = self._bench.train([(task.device, task.kept) for task in tasks])
            for task, answer in zip(tasks, answers, strict=True):
                yield read(task, answer)

    def score(self, scorings: Sequence[Scoring]) -> list[Tally]:
        """One after another."""
        last = self._bench.batches
        return [self._bench.score(s.prototype, s.state, 0, last, quantized=s.quantized) for s in scorings]

    @property
    def workers(self) -> int:
        """This process."""
        return 1

    def ask_all(self, call: str, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """One after another."""
        return [process_pool.call(call, request) for request in requests]

    def close(self) -> None:
        """Nothing to stop."""
