"""Time and energy of boards, for runs in virtual time (fleet/virtual/)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fleet.report.facts import RunFacts
from fleet.report.figures.style import Theme, grid, legend, series, short
from fleet.report.summary import mean_quality

__all__ = ["BoardTotal", "board_totals", "draw_virtual", "missed", "virtual_seconds"]

FIELDS = ("seconds", "train_seconds", "joules", "bytes_up", "bytes_down")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardTotal:
    """Total cost of one board's devices, over all rounds."""

    board: str
    devices: int
    seconds: float
    train_seconds: float
    joules: float
    bytes_up: int
    bytes_down: int


def board_totals(run: RunFacts) -> list[BoardTotal]:
    """Totals by board, sorted by name; empty without virtual time."""
    virtual = run.config.get("virtual")
    boards = virtual.get("boards") if isinstance(virtual, dict) else None
    devices = Counter(map(str, boards)) if isinstance(boards, list) else Counter[str]()
    totals: dict[str, dict[str, Any]] = {}
    for one in run.virtual:
        for board, used in one.boards.items():
            total = totals.setdefault(board, dict.fromkeys(FIELDS, 0))
            for name in FIELDS:
                total[name] += getattr(used, name)
    return [BoardTotal(board=board, devices=devices[board], **totals[board]) for board in sorted(totals)]


def virtual_seconds(run: RunFacts) -> float:
    """The end of the last round."""
    return max((one.closed_s for one in run.virtual), default=0.0)


def missed(run: RunFacts) -> str:
    """A text about late and lost updates and abandoned rounds."""
    late, lost = (sum(len(getattr(one, name)) for one in run.virtual) for name in ("late", "lost"))
    abandoned = sum(one.abandoned is not None for one in run.virtual)
    return f"{late} updates late, {lost} lost, {abandoned} rounds abandoned"


def draw_virtual(runs: Sequence[RunFacts], theme: Theme) -> Figure | None:
    """Accuracy over virtual time, a line per run, and the energy of one device of each board; None without any."""
    shown = [run for run in runs if run.virtual]
    if not shown:
        return None
    figure, (left, right) = grid(2, theme, across=2, height=3.4)
    lines = {}
    for index, run in enumerate(shown):
        closed = {r.round: one.closed_s for r, one in zip(run.rounds, run.virtual, strict=True)}
        minutes = [closed[r.round] / 60 for r in run.scored_rounds]
        (line,) = left.plot(minutes, [100 * mean_quality(r) for r in run.scored_rounds], **series(index, theme))
        lines[short(run.name)] = line
    left.set_xlabel("minutes on boards, virtual")
    left.set_ylabel("mean accuracy of the prototypes, %")
    left.set_ylim(0, 100)
    _energy(right, shown, theme)
    if len(shown) > 1:
        legend(figure, lines, theme)
    return figure


def _energy(axes: Axes, runs: Sequence[RunFacts], theme: Theme) -> None:
    boards = list(dict.fromkeys(total.board for run in runs for total in board_totals(run)))
    height = 0.8 / len(runs)
    for index, run in enumerate(runs):
        totals = {total.board: total.joules / max(total.devices, 1) / 1000 for total in board_totals(run)}
        rows = [n + (index - (len(runs) - 1) / 2) * height for n in range(len(boards))]
        colour = theme.colours[index % len(theme.colours)]
        bars = axes.barh(rows, [totals.get(board, 0.0) for board in boards], height=0.9 * height, color=colour)
        axes.bar_label(bars, fmt="%.2f", padding=3, fontsize=8, color=theme.grey)
    axes.set_yticks(range(len(boards)), boards)
    axes.tick_params(axis="y", labelsize=9, labelcolor=theme.ink, length=0)
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.margins(x=0.2)
    axes.set_xlabel("kJ of one device, all rounds, estimated")
