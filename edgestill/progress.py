"""What a person sees while rounds run: a bar on a terminal, a line per round elsewhere, or nothing."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from edgestill.output import err

if TYPE_CHECKING:
    from fleet.runs import RoundResult

__all__ = ["RoundDisplay"]


class RoundDisplay:
    """Progress of `rounds` rounds with `per_round` devices each; a context manager."""

    def __init__(self, rounds: int, per_round: int, *, quiet: bool) -> None:
        self.rounds = rounds
        self.lines = not quiet and not err.is_terminal
        self.bar = Progress(
            TextColumn("round {task.fields[number]}/{task.fields[rounds]}"),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            TextColumn("devices"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[scores]}"),
            console=err,
            disable=quiet or not err.is_terminal,
        )
        self.task = self.bar.add_task("", total=rounds * per_round, number=1, rounds=rounds, scores="")
        self.started = time.monotonic()

    def __enter__(self) -> RoundDisplay:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.bar.stop()

    def device_done(self, device: str) -> None:
        """A device has answered."""
        self.bar.advance(self.task)

    def round_done(self, result: RoundResult) -> None:
        """A round was fused and scored."""
        scores = "  ".join(f"{name} {100 * p.accuracy:.1f}%" for name, p in result.prototypes.items())
        self.bar.update(self.task, number=min(result.round + 1, self.rounds), scores=scores)
        if self.lines:
            left = (time.monotonic() - self.started) / result.round * (self.rounds - result.round)
            traffic = f"{result.bytes_up / 1000:.0f} kB up"
            err.print(
                f"round {result.round}/{self.rounds}  {scores}  {traffic}  {result.seconds:.1f} s  {left:.0f} s left",
                soft_wrap=True,
            )
