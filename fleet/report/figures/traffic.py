"""The cost of accuracy: rounds to a target, and bytes on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import isnan

from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fleet.report.facts import RunFacts
from fleet.report.figures.accuracy import prototypes_of
from fleet.report.figures.style import Theme, grid, legend, name_panel, series, short
from fleet.report.summary import reached

__all__ = ["draw_bytes", "draw_rounds_to_target"]


def draw_bytes(runs: Sequence[RunFacts], theme: Theme) -> Figure:
    """A panel per run: accuracy over the bytes that the prototype's devices have sent and received so far."""
    figure, panels = grid(len(runs), theme, height=3.9 if len(runs) == 1 else 3.2)
    names = prototypes_of(runs)
    artists: dict[str, Artist] = {}
    for axes, run in zip(panels, runs, strict=True):
        for prototype in run.prototypes:
            results = [result for _, result in run.results(prototype)]
            moved = accumulate(p.bytes_up + p.bytes_down for p in results)
            points = [(max(b, 1) / 1e6, 100 * p.quality) for b, p in zip(moved, results, strict=True)]
            style = series(names.index(prototype), theme)
            (artists[prototype],) = axes.plot(*zip(*(xy for xy in points if not isnan(xy[1])), strict=True), **style)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel("MB sent and received so far")
        axes.set_ylabel("test accuracy, %")
        axes.set_ylim(0, 100)
        if len(runs) > 1:
            name_panel(axes, run.name, theme)
    legend(figure, artists, theme)
    return figure


def draw_rounds_to_target(runs: Sequence[RunFacts], theme: Theme, target: float) -> Figure:
    """A row per prototype, a mark per run: the first round at the target; hollow at the end if never reached."""
    names = prototypes_of(runs)
    figure, (axes,) = grid(1, theme, height=0.6 + 0.24 * len(names) * max(len(runs), 2))
    beyond = 1 + max(r.round for run in runs for r in run.rounds)
    artists: dict[str, Artist] = {}
    for index, run in enumerate(runs):
        style = {**series(index, theme), "linestyle": "", "markersize": 7}
        for prototype in run.prototypes:
            row = names.index(prototype) + (index - (len(runs) - 1) / 2) * 0.7 / len(runs)
            first = reached(run, prototype, target)
            x = beyond if first is None else first.round
            axes.plot([0, x], [row, row], color=theme.line, linewidth=2, zorder=1)
            hollow = {"markerfacecolor": theme.ground} if first is None else {}
            (mark,) = axes.plot([x], [row], **{**style, **hollow})
            artists.setdefault(short(run.name), mark)
            label = "not reached" if first is None else f"round {first.round}"
            axes.annotate(
                label, (x, row), (9, 0), textcoords="offset points", va="center", fontsize=8, color=theme.grey
            )
    axes.set_yticks(range(len(names)), [short(name) for name in names])
    axes.tick_params(axis="y", labelsize=9, labelcolor=theme.ink, length=0)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(0, beyond * 1.14)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(f"first round with {100 * target:g} % accuracy")
    axes.grid(visible=False)
    if len(runs) > 1:
        legend(figure, artists, theme)
    return figure
