"""Time of a run by stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from fleet.report.facts import RunFacts
from fleet.report.figures.style import Theme, grid, legend, short
from fleet.report.summary import REST, STAGES, time_split

__all__ = ["draw_times"]

HATCHES = ("", "///", "", "\\\\\\", "", "...", "xx", "")


def draw_times(runs: Sequence[RunFacts], theme: Theme) -> Figure:
    """A bar per run, in seconds; adjacent stages differ in colour and hatching."""
    figure, (axes,) = grid(1, theme, height=0.75 + 0.42 * len(runs))
    splits = [time_split(run.rounds) for run in runs]
    stages = [stage for stage in (*STAGES, REST) if any(split.get(stage) for split in splits)]
    left = [0.0] * len(runs)
    rows = range(len(runs))
    patches: dict[str, Artist] = {}
    for stage in stages:
        index = [*STAGES, REST].index(stage)
        colour = theme.grey if stage == REST else theme.colours[index % 6]
        style: dict[str, Any] = {"facecolor": colour, "hatch": HATCHES[index], "edgecolor": theme.ground}
        seconds = [split.get(stage, 0.0) for split in splits]
        axes.barh(rows, seconds, left=left, height=0.62, linewidth=0.8, **style)
        left = [a + b for a, b in zip(left, seconds, strict=True)]
        patches[stage] = Patch(**style)
    for row, total in zip(rows, left, strict=True):
        label = f"{total:.1f} s" if total < 120 else f"{total / 60:.1f} min"
        axes.annotate(
            label, (total, row), (5, 0), textcoords="offset points", va="center", fontsize=8, color=theme.grey
        )
    axes.set_yticks(rows, [short(run.name) for run in runs])
    axes.tick_params(axis="y", labelsize=9, labelcolor=theme.ink, length=0)
    axes.invert_yaxis()
    axes.set_xlabel("seconds, all rounds together")
    axes.grid(visible=False)
    axes.margins(x=0.1)
    legend(figure, patches, theme, across=8)
    return figure
