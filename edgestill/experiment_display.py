"""What a person sees while an experiment runs: a bar on a terminal, a line per run elsewhere, or nothing."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from edgestill.output import err

if TYPE_CHECKING:
    from fleet.experiments.runner import Progress

__all__ = ["ExperimentDisplay"]

QUIET_S = 60.0  # how long there may be nothing to read, elsewhere than on a terminal


class ExperimentDisplay:
    """Call it with every `Progress`; a context manager."""

    def __init__(self, runs: int, jobs: int, *, quiet: bool) -> None:
        self.jobs = jobs
        self.lines = not quiet and not err.is_terminal
        self.bar = Bar(
            TextColumn("runs"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.fields[now]}"),
            console=err,
            disable=quiet or not err.is_terminal or not runs,
        )
        self.task = self.bar.add_task("", total=runs, left="", now="")
        self.started = self.spoke = time.monotonic()

    def __enter__(self) -> ExperimentDisplay:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.bar.stop()

    def __call__(self, progress: Progress) -> None:
        """Show how far it is."""
        now = "; ".join(f"{run}: {said or 'starts'}" for run, said in progress.running.items())
        left = self._left(progress)
        self.bar.update(self.task, completed=progress.done, left=left, now=now)
        if not self.lines:
            return
        if progress.ended is not None:
            work, seconds, failed = progress.ended
            said = "failed" if failed else "done"
            self._line(f"{progress.done}/{progress.total}  {work} {said} in {seconds:.0f} s  {left}")
        elif progress.running and time.monotonic() - self.spoke > QUIET_S:
            self._line(f"{progress.done}/{progress.total}  {now}")

    def _left(self, progress: Progress) -> str:
        """Guessed from the runs that are done, as if all were alike."""
        if not progress.done or progress.done == progress.total:
            return ""
        left = (time.monotonic() - self.started) / progress.done * (progress.total - progress.done)
        return f"about {left / 60:.0f} min left" if left > 120 else f"about {left:.0f} s left"

    def _line(self, text: str) -> None:
        err.print(text, markup=False, soft_wrap=True)
        self.spoke = time.monotonic()
