"""Fusion on the Ray cluster of [fusion], or on this machine alone if the cluster does not answer or is lost.

The same updates give the same bits either way, so a round never waits for a cluster. The next round tries it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from aggregator.fusion.process_pool import lent
from aggregator.fusion.ray_tasks import ClusterError, RayTasks

__all__ = ["Cluster"]

ALONE = "this round is fused on this machine alone, the next one tries the cluster again"
T = TypeVar("T")


class Cluster:
    """The connection of one worker process; made when it is first needed, kept for the next rounds."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """`settings` is [fusion] of fleet.toml."""
        self._address = settings.get("address", "")
        self._tasks: RayTasks | None = None

    def run(self, work: Callable[[int], T]) -> tuple[T, list[str]]:
        """`work(processes)`, with so many processes beyond this one, and what the operator should read about it."""
        if not self._address:
            return work(0), []
        try:
            self._tasks = tasks = self._tasks or RayTasks(self._address)
            with lent(tasks):
                return work(tasks.workers), []
        except ClusterError as error:
            self.close()
            return work(0), [
                f"{error}; this round is fused on this machine alone, the next one tries the cluster again"
            ]

    def close(self) -> None:
        """Leave the cluster."""
        tasks, self._tasks = self._tasks, None
        if tasks is not None:
            tasks.close()
