"""When a device reports its work and its board: at every change of stage, every few seconds of work, seldom else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from edge_agent.host.telemetry import BoardState
from edge_agent.protocol.progress import Progress
from wire.board_reports import Telemetry

__all__ = ["TelemetryReports"]

LEAST_S = 1.0  # between two reports: a fleet on one machine changes its stages quickly
IDLE_S = 300.0


class TelemetryReports:
    """One device's reports; `every_s` of work, 0: none. `read` reads the board."""

    def __init__(self, every_s: float, read: Callable[[], BoardState]) -> None:
        self._every_s, self._read = every_s, read
        self._last: Progress | None = None
        self._sent = float("-inf")
        self.due = float("inf") if every_s == 0 else 0.0

    def again(self) -> None:
        """A new connection: the aggregator may have missed the last report."""
        self._last = None

    def poll(self, progress: Progress, now: float) -> Telemetry | None:
        """The report that is due, if one is; `due` is when to ask next."""
        if self._every_s == 0:
            return None
        changed = self._last is None or (progress.round, progress.stage) != (self._last.round, self._last.stage)
        rest = self._every_s if progress.stage != "idle" else max(self._every_s, IDLE_S)
        self.due = self._sent + (LEAST_S if changed else rest)
        if now < self.due:
            return None
        self._last, self._sent = progress, now
        self.due = now + rest
        return Telemetry(**asdict(progress), **asdict(self._read()))
