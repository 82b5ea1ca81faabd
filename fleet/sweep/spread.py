"""Accuracy by round over the seeds of each point: the mean as a line, one standard deviation as a band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from matplotlib.figure import Figure

from fleet.report.facts import RunFacts
from fleet.report.figures.style import Theme, by_round, grid, labelled, legend, name_panel, series
from fleet.report.summary import mean_quality
from fleet.sweep.stored import Group

__all__ = ["MOST_LINES", "MOST_PANELS", "Curve", "best_groups", "curve", "draw_spread", "panels_of"]

MOST_LINES, MOST_PANELS = 12, 9  # more are not readable; the table has them all
MEAN = "mean of the prototypes"


@dataclass(frozen=True, slots=True)
class Curve:
    """Accuracies of a point's runs, in rounds that every run has scored."""

    rounds: Sequence[int]
    mean: Sequence[float]
    std: Sequence[float]  # of a sample; 0 for one seed


def curve(runs: Sequence[RunFacts], panel: str) -> Curve:
    """The curve of one prototype, or of the mean of all (`MEAN`); empty if a run does not have it."""
    scores = [_by_round(run, panel) for run in runs]
    rounds = sorted(set.intersection(*map(set, scores)))
    values = [[score[number] for score in scores] for number in rounds]
    return Curve(rounds, [fmean(v) for v in values], [stdev(v) if len(v) > 1 else 0.0 for v in values])


def _by_round(run: RunFacts, panel: str) -> dict[int, float]:
    if panel == MEAN:
        return {r.round: mean_quality(r) for r in run.scored_rounds}
    return {number: p.quality for number, p in run.scored(panel)}


def panels_of(groups: Sequence[Group]) -> list[str]:
    """The mean, if there are several prototypes, then the prototypes in order of first occurrence."""
    names = list(dict.fromkeys(name for group in groups for run in group.runs for name in run.prototypes))
    return [*([MEAN] if len(names) > 1 else []), *names][:MOST_PANELS]


def best_groups(groups: Sequence[Group]) -> list[Group]:
    """At most `MOST_LINES` points in their order: those with the highest accuracy after the last round."""
    ranked = sorted(groups, key=lambda group: -fmean(mean_quality(run.last) for run in group.runs))
    kept = ranked[:MOST_LINES]
    return [group for group in groups if group in kept]


def draw_spread(groups: Sequence[Group], theme: Theme) -> Figure:
    """A panel per prototype, a line and a band per point."""
    shown, names = best_groups(groups), panels_of(groups)
    figure, panels = grid(len(names), theme, height=3.9 if len(names) == 1 else 3.2)
    for axes, name in zip(panels, names, strict=True):
        for index, group in enumerate(shown):
            found = curve(group.runs, name)
            if not found.rounds:
                continue
            style = series(index, theme)
            axes.plot(found.rounds, [100 * value for value in found.mean], label=group.name, **style)
            low = [100 * (value - std) for value, std in zip(found.mean, found.std, strict=True)]
            high = [100 * (value + std) for value, std in zip(found.mean, found.std, strict=True)]
            if any(found.std):
                axes.fill_between(found.rounds, low, high, color=style["color"], alpha=0.18, linewidth=0)
        axes.set_ylim(0, 100)
        axes.set_ylabel("test accuracy, %")
        by_round(axes, [r.round for group in shown for run in group.runs for r in run.rounds])
        if len(names) > 1:
            name_panel(axes, name, theme)
    legend(figure, labelled(panels), theme)
    return figure
