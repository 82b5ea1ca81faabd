"""Figures of result pages: bars of ours and the paper's numbers, and the style of all figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fleet.results.curves import COLOURS, GREY

if TYPE_CHECKING:
    from fleet.experiments.report import Row

__all__ = ["COLOURS", "GREY", "bars", "plain"]


def plain(axes: Axes) -> None:
    """Remove the frame."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=GREY, labelsize=8)


def bars(title: str, rows: Sequence[Row]) -> Figure:
    """One bar per cell, with its standard deviation; the paper's number is a mark."""
    figure = Figure(figsize=(9.0, 1.2 + 0.3 * len(rows)), dpi=150, layout="constrained")
    axes = figure.subplots()
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    places = range(len(rows))
    ours = [row.ours or 0.0 for row in rows]
    colours = [COLOURS[0] if row.met else COLOURS[4] for row in rows]
    axes.barh(places, ours, xerr=[row.std or 0.0 for row in rows], color=colours, height=0.6, ecolor=GREY)
    published = [(row.cell.paper, place) for row, place in zip(rows, places, strict=True) if row.cell.paper is not None]
    if published:
        x, y = zip(*published, strict=True)
        axes.plot(x, y, "|", color="black", markersize=13, markeredgewidth=2, label="paper")
        axes.legend(loc="best", fontsize=8, frameon=False)
    axes.set_yticks(list(places), [row.name for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel(", ".join(dict.fromkeys(row.cell.unit for row in rows if row.cell.unit)), fontsize=9)
    plain(axes)
    axes.tick_params(axis="y", labelsize=8, colors="black", length=0)
    return figure
