"""Accuracy by round: prototypes and ensemble of each run, and a comparison of runs."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fleet.report.facts import RunFacts
from fleet.report.figures.style import Theme, by_round, grid, labelled, legend, name_panel, series, short
from fleet.report.summary import ensemble, mean_quality

__all__ = ["draw_accuracy", "draw_comparison", "prototypes_of"]


def prototypes_of(runs: Sequence[RunFacts]) -> list[str]:
    """All prototypes of all runs, so that each has the same colour in every panel."""
    return list(dict.fromkeys(name for run in runs for name in run.prototypes))


def draw_accuracy(runs: Sequence[RunFacts], theme: Theme) -> Figure:
    """A panel per run: a line per prototype, dotted with float weights; dashed is the ensemble."""
    figure, panels = grid(len(runs), theme, height=3.9 if len(runs) == 1 else 3.2)
    names = prototypes_of(runs)
    for axes, run in zip(panels, runs, strict=True):
        for prototype in run.prototypes:
            _prototype(axes, run, prototype, theme, names.index(prototype))
        _ensemble(axes, run, theme)
        axes.set_ylim(0, 100)
        axes.set_ylabel("test accuracy, %")
        by_round(axes, [r.round for r in run.rounds])
        if len(runs) > 1:
            name_panel(axes, run.name, theme)
    legend(figure, labelled(panels), theme)
    return figure


def _prototype(axes: Axes, run: RunFacts, prototype: str, theme: Theme, index: int) -> None:
    results = run.scored(prototype)
    numbers = [round_number for round_number, _ in results]
    style = series(index, theme)
    axes.plot(numbers, [100 * p.quality for _, p in results], label=prototype, **style)
    full = [(round_number, 100 * p.accuracy_float) for round_number, p in results if p.accuracy_float is not None]
    if full:
        dotted = {**style, "linestyle": ":", "linewidth": 1.4, "markersize": 3, "markerfacecolor": theme.ground}
        axes.plot(*zip(*full, strict=True), label=f"{prototype}, float weights", **dotted)


def _ensemble(axes: Axes, run: RunFacts, theme: Theme) -> None:
    together = [(r.round, 100 * score) for r in run.rounds if (score := ensemble(r)) is not None]
    if together:
        axes.plot(*zip(*together, strict=True), color=theme.ink, linestyle="--", linewidth=1.4, label="ensemble")


def draw_comparison(runs: Sequence[RunFacts], theme: Theme) -> Figure | None:
    """A line per run: the mean of its prototypes; None for a single run."""
    if len(runs) < 2:
        return None
    figure, (axes,) = grid(1, theme, height=3.9)
    for index, run in enumerate(runs):
        numbers = [r.round for r in run.scored_rounds]
        axes.plot(
            numbers, [100 * mean_quality(r) for r in run.scored_rounds], label=short(run.name), **series(index, theme)
        )
    axes.set_ylim(0, 100)
    axes.set_ylabel("mean accuracy of the prototypes, %")
    by_round(axes, [r.round for run in runs for r in run.rounds])
    legend(figure, labelled([axes]), theme)
    return figure
