"""The figure of FedRAD's table: one panel per split, one group of bars per attack, one bar per recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fleet.experiments.base import AllResults
from fleet.experiments.figures import COLOURS, plain

__all__ = ["draw"]

Key = tuple[str, str, str]  # recipe, split, attack
WIDTH = 0.16


def draw(results: AllResults, keys: Sequence[Key], name: Callable[[Key], str], labels: Mapping[str, str]) -> Figure:
    """Test errors in default fidelity, the mean over seeds, on a logarithmic axis; missing runs have no bar."""
    recipes, splits, attacks = (list(dict.fromkeys(key[i] for key in keys)) for i in range(3))
    figure = Figure(figsize=(10.0, 3.4), dpi=150, layout="constrained")
    panels = figure.subplots(1, len(splits), sharey=True)
    figure.suptitle("Test error on MNIST, %", x=0.01, ha="left", fontsize=11)
    shown = {}
    for split, axes in zip(splits, panels, strict=True):
        for position, recipe in enumerate(recipes):
            errors = [(place, _errors(results, name((recipe, split, attack)))) for place, attack in enumerate(attacks)]
            bars = [(place, fmean(values)) for place, values in errors if values]
            if bars:
                places = [place + WIDTH * (position - (len(recipes) - 1) / 2) for place, _ in bars]
                shown[labels[recipe]] = axes.bar(places, [e for _, e in bars], width=WIDTH, color=COLOURS[position])
        _finish(axes, split, attacks)
    figure.legend(shown.values(), shown.keys(), fontsize=8, frameon=False, loc="outside right center")
    return figure


def _errors(results: AllResults, run: str) -> list[float]:
    return [float(one[run]["error"]) for (fidelity, _), one in results.items() if fidelity == "paper" and run in one]


def _finish(axes: Axes, split: str, attacks: Sequence[str]) -> None:
    axes.set_title(split, fontsize=9)
    axes.set_yscale("log")
    axes.set_ylim(1, 100)
    axes.set_yticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
    axes.set_xlim(-0.6, len(attacks) - 0.4)
    axes.set_xticks(range(len(attacks)), list(attacks))
    plain(axes)
