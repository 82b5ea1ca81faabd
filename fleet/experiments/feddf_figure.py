"""Accuracy by round: one panel per comparison, one line per run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fleet.experiments.base import AllResults
from fleet.experiments.figures import COLOURS, GREY, plain

__all__ = ["Line", "curves"]


@dataclass(frozen=True, slots=True)
class Line:
    """A curve of a run, mean over the seeds."""

    label: str
    run: str
    prototype: str
    key: str = "accuracy"


def curves(title: str, panels: Mapping[str, Sequence[Line]]) -> Callable[[AllResults], Figure]:
    """A figure with `panels` side by side; a line whose run was not made is left out."""

    def draw(results: AllResults) -> Figure:
        figure = Figure(figsize=(3.6 * len(panels) + 0.6, 3.4), dpi=150, layout="constrained")
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        for axes, (name, lines) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
            for index, line in enumerate(lines):
                values = _mean(results, line)
                if not values:
                    continue
                style = {"color": GREY, "linestyle": ":"} if line.key == "ensemble" else {"color": COLOURS[index]}
                axes.plot(range(1, len(values) + 1), values, marker="o", markersize=3, label=line.label, **style)
            axes.set_title(name, fontsize=9)
            axes.set_xlabel("round", fontsize=9)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            plain(axes)
            if axes.lines:
                axes.legend(fontsize=7, frameon=False)
        figure.axes[0].set_ylabel("test accuracy, %", fontsize=9)
        return figure

    return draw


def _mean(results: AllResults, line: Line) -> list[float]:
    found = [facts[line.run][line.key].get(line.prototype, []) for facts in results.values() if line.run in facts]
    return [fmean(values) for values in zip(*found, strict=True)]
