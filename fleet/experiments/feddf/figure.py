"""Accuracy by round: one panel per comparison, one line per run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fleet.experiments.base import AllResults
from fleet.experiments.figures import COLOURS, GREY, plain

__all__ = ["Line", "compared", "curves"]

ACROSS = 4


@dataclass(frozen=True, slots=True)
class Line:
    """A curve of a run, mean over the seeds."""

    label: str
    run: str
    prototype: str
    key: str = "accuracy"


def compared(average: str, distilled: str, prototype: str) -> list[Line]:
    """The lines of a run with FedAvg and of one with FedDF, and its ensemble."""
    return [
        Line("FedAvg", average, prototype),
        Line("FedDF", distilled, prototype),
        Line("ensemble", distilled, prototype, "ensemble"),
    ]


def curves(title: str, panels: Mapping[str, Sequence[Line]]) -> Callable[[AllResults], Figure]:
    """A figure with `panels`, at most `ACROSS` in a row; missing runs are omitted."""

    def draw(results: AllResults) -> Figure:
        measured = {name: _measured(results, lines) for name, lines in panels.items()}
        shown = {name: lines for name, lines in measured.items() if lines}
        across, down = min(len(shown), ACROSS), -(-len(shown) // ACROSS)
        figure = Figure(figsize=(3.6 * across + 0.6, 3.0 * down + 0.4), dpi=150, layout="constrained")
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        for place, (name, lines) in enumerate(shown.items(), 1):
            axes = figure.add_subplot(down, across, place)
            _panel(axes, name, lines)
            if place % across == 1 or across == 1:
                axes.set_ylabel("test accuracy, %", fontsize=9)
        return figure

    return draw


def _panel(axes: Axes, name: str, lines: Sequence[tuple[Line, str, list[float]]]) -> None:
    for line, colour, values in lines:
        style: dict[str, Any] = {"color": GREY, "linestyle": ":"} if line.key == "ensemble" else {"color": colour}
        axes.plot(range(1, len(values) + 1), values, marker="o", markersize=3, label=line.label, **style)
    axes.set_title(name, fontsize=9)
    axes.set_xlabel("round", fontsize=9)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize=7, frameon=False)
    plain(axes)


def _measured(results: AllResults, lines: Sequence[Line]) -> list[tuple[Line, str, list[float]]]:
    """The lines with results, each with the colour of its position."""
    curves_of = [(line, COLOURS[index], _mean(results, line)) for index, line in enumerate(lines)]
    return [(line, colour, values) for line, colour, values in curves_of if values]


def _mean(results: AllResults, line: Line) -> list[float]:
    curves = [facts[line.run][line.key].get(line.prototype, []) for facts in results.values() if line.run in facts]
    return [fmean(values) for values in zip(*curves, strict=True)]
