"""The display of parallel processes: the runs of an experiment or a sweep."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table

from edgestill.cli.display import Display, crop

if TYPE_CHECKING:
    from fleet.jobs import Progress

__all__ = ["JobsDisplay"]

QUIET_S = 60.0  # maximum pause between lines if there is no terminal


class JobsDisplay(Display):
    """Call it with every `Progress`; a context manager."""

    def __init__(self, runs: int, *, quiet: bool) -> None:
        super().__init__(quiet=quiet or not runs)
        self.runs = runs
        self.progress: Progress | None = None
        self.spoke = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        """Show the progress."""
        self.progress = progress
        if progress.ended is not None:
            key, seconds, failed = progress.ended
            said = f"{key} {'failed' if failed else 'done'} in {seconds:.0f} s"
            self._say(f"{progress.done}/{progress.total}  {said}  {self._left(progress)}".rstrip())
        elif progress.running and time.monotonic() - self.spoke > QUIET_S:
            now = "; ".join(f"{run}: {said or 'starts'}" for run, said in progress.running.items())
            self._say(f"{progress.done}/{progress.total}  {now}")

    def picture(self) -> list[RenderableType]:
        """A progress bar over all runs, and a line for each active run."""
        if self.progress is None:
            return []
        bar = Table.grid(padding=(0, 1))
        done = ProgressBar(total=self.progress.total, completed=self.progress.done, width=28)
        bar.add_row("runs", done, f"{self.progress.done}/{self.progress.total}", self._left(self.progress))
        return [bar, *(crop(f"  {run}: {said or 'starts'}") for run, said in self.progress.running.items())]

    def _left(self, progress: Progress) -> str:
        """The remaining time, assuming that all runs take equally long."""
        said = self.left(progress.done / max(progress.total, 1))
        return f"about {said}" if said else ""

    def _say(self, text: str) -> None:
        self.line(text)
        self.spoke = time.monotonic()
