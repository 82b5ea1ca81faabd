"""Scores of FedGen's fleets by round: one panel per setting, one line per recipe, mean over the seeds."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from matplotlib.figure import Figure

from fleet.experiments.base import AllResults
from fleet.experiments.figures import COLOURS, plain

__all__ = ["panels_by"]


def panels_by(
    title: str, results: AllResults, panels: Mapping[str, Mapping[str, str]], *, key: str = "slices"
) -> Figure:
    """`panels`: by title, the runs by the name of their line; missing runs are omitted.

    Of several fidelities the first with results is drawn.
    """
    fidelity = next(iter(results))[0]
    seeds = [runs for (which, _), runs in results.items() if which == fidelity]
    measured = {name: lines for name, lines in panels.items() if any(run in r for r in seeds for run in lines.values())}
    figure = Figure(figsize=(max(3.8 * len(measured), 5.0), 3.4), dpi=150, layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    for place, (name, lines) in enumerate(measured.items(), 1):
        axes = figure.add_subplot(1, len(measured), place)
        for colour, (label, run) in zip(COLOURS, lines.items(), strict=False):
            curves = [runs[run][key] for runs in seeds if run in runs]
            if curves:
                rounds = next(runs[run]["round"] for runs in seeds if run in runs)
                axes.plot(rounds, [fmean(at) for at in zip(*curves, strict=True)], color=colour, label=label, lw=1.3)
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("round", fontsize=9)
        axes.legend(fontsize=7, frameon=False)
        plain(axes)
        if place == 1:
            axes.set_ylabel("test accuracy, %", fontsize=9)
    return figure
