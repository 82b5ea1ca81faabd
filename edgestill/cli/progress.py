"""The display of a run: live on a terminal, a line per round elsewhere, or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan, nan
from typing import TYPE_CHECKING, Any

from rich.console import JustifyMethod, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table

from core.lost_devices import lost_text
from edgestill.cli.display import Display, crop
from edgestill.cli.output import err
from fleet.simulation.observer import Observer

if TYPE_CHECKING:
    from fleet.results.run_file import RoundResult, Run

__all__ = ["RoundDisplay", "RunDisplay"]

NAMED = 4  # suspicious devices that are listed by name


class RoundDisplay(Display):
    """Progress of `rounds` rounds with `per_round` devices each; a context manager.

    `at_once` devices can train in parallel; `fleet` (as in `run.json`) maps devices to prototypes.
    """

    def __init__(
        self, rounds: int, per_round: int, *, quiet: bool, at_once: int = 1, fleet: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        super().__init__(quiet=quiet)
        self.rounds, self.per_round, self.at_once = rounds, per_round, at_once
        self.prototypes = {device["device"]: device["prototype"] for device in fleet}
        self.results: list[RoundResult] = []
        self.first: int | None = None  # first round of this display: a resumed run starts later
        self.answered = 0  # in the current round

    def device_done(self, device: str) -> None:
        """A device has answered."""
        self.answered += 1

    def round_done(self, result: RoundResult) -> None:
        """A round was fused and scored."""
        self.first = result.round if self.first is None else self.first
        self.results.append(result)
        self.answered = 0
        scored = {name: p.quality for name, p in result.prototypes.items() if not isnan(p.accuracy)}
        scores = "  ".join(f"{name} {100 * accuracy:.1f}%" for name, accuracy in scored.items())
        traffic = f"{result.bytes_up / 1000:.0f} kB up  {result.bytes_down / 1000:.0f} kB down"
        said = [f"round {result.round}/{self.rounds}", scores, traffic, f"{result.seconds:.1f} s", self._left()]
        self.line("  ".join(filter(None, [*said, self._suspicious(), self._lost()])))

    def picture(self) -> list[RenderableType]:
        """Progress bar, a line per prototype, traffic, and suspicious devices."""
        number = min(self._done + 1, self.rounds)
        bar = Table.grid(padding=(0, 1))
        bar.add_column(no_wrap=True)
        bar.add_column(min_width=4, max_width=28)  # dropped on a narrow terminal
        bar.add_column(no_wrap=True, overflow="ellipsis")
        bar.add_column(no_wrap=True)
        done = ProgressBar(total=self.rounds, completed=self._share * self.rounds)
        bar.add_row(f"round {number}/{self.rounds}", done, self._busy(), self._left())
        if not self.results:
            return [bar]
        up, down = (sum(getattr(r, name) for r in self.results) / 1e6 for name in ("bytes_up", "bytes_down"))
        lines = [f"{up:.2f} MB up, {down:.2f} MB down so far", self._suspicious(), self._lost()]
        return [bar, self._scores(), *(crop(line) for line in lines if line)]

    @property
    def _done(self) -> int:
        return self.results[-1].round if self.results else (self.first or 1) - 1

    @property
    def _share(self) -> float:
        """The completed share of all rounds; fusion counts as one more device."""
        return min(self._done + self.answered / (self.per_round + 1), self.rounds) / self.rounds

    def _left(self) -> str:
        before = ((self.first or 1) - 1) / self.rounds
        return self.left((self._share - before) / (1 - before)) if before < 1 else ""

    def _busy(self) -> str:
        if self._done >= self.rounds:
            return "done"
        waited_for = self.per_round - self.answered
        if waited_for <= 0:
            return f"all {self.per_round} devices answered, fusing"
        return f"{self.answered} of {self.per_round} devices answered, {min(self.at_once, waited_for)} busy"

    def _scores(self) -> Table:
        """Accuracies of the last scored round, and their changes."""
        scored = [r for r in self.results if not any(isnan(p.accuracy) for p in r.prototypes.values())]
        last, before = (scored or self.results)[-1], scored[-2] if len(scored) > 1 else None
        table = Table(box=None, pad_edge=False, header_style="dim")
        for column in ("prototype", "accuracy", "change", "float weights", "best"):
            justify: JustifyMethod = "left" if column == "prototype" else "right"
            table.add_column(column, justify=justify, no_wrap=True, overflow="ellipsis")
        for name, p in last.prototypes.items():
            then = before.prototypes.get(name) if before is not None else None
            change = "" if then is None else f"{100 * (p.quality - then.quality):+.1f}"
            full = "" if p.accuracy_float is None else f"{100 * p.accuracy_float:.1f} %"
            best = max((r.prototypes[name].quality for r in scored if name in r.prototypes), default=nan)
            table.add_row(name, f"{100 * p.quality:.1f} %", change, full, f"{100 * best:.1f} %")
        together = [p.ensemble_accuracy for p in last.prototypes.values() if p.ensemble_accuracy is not None]
        if together:
            table.add_row("ensemble", f"{100 * together[0]:.1f} %")
        return table

    def _suspicious(self) -> str:
        """Suspicious devices of the last round, the worst first."""
        from fleet.results.suspects import suspects

        suspicious = suspects(self.results[-1].devices, self.prototypes)
        named = [s.device if s.score is None else f"{s.device} (score {s.score:.3f})" for s in suspicious[:NAMED]]
        more = f" and {len(suspicious) - NAMED} more" if len(suspicious) > NAMED else ""
        return f"suspicious: {', '.join(named)}{more}" if suspicious else ""

    def _lost(self) -> str:
        """Lost devices of the last round, with the reason."""
        last = self.results[-1]
        return lost_text(last.lost, last.asked) if last.lost else ""


class RunDisplay(Observer):
    """Shows a run: its rounds by a `RoundDisplay`, warnings on stderr."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._rounds = RoundDisplay(1, 1, quiet=True)

    def watch(self, run: Run, *, per_round: int, at_once: int) -> RoundDisplay:
        """The display of the rounds, as a context manager."""
        total = run.config["rounds"]
        self._rounds = RoundDisplay(total, per_round, quiet=self._quiet, at_once=at_once, fleet=run.fleet)
        return self._rounds

    def device_done(self, device: str) -> None:
        """A device has answered."""
        self._rounds.device_done(device)

    def round_done(self, result: RoundResult) -> None:
        """A round was fused and scored."""
        self._rounds.round_done(result)

    def warn(self, text: str) -> None:
        """Print a warning, even if progress is not shown."""
        err.print(f"warning: {text}", soft_wrap=True)
