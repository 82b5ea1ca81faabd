"""Figures of single devices: scores or weights in fusion, attackers marked, and their samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from aggregator.fusion.example_cap import capped_text
from fleet.report.facts import RunFacts
from fleet.report.figures.style import DPI, Theme, grid, legend, name_panel, short
from fleet.results.partition_plot import dotplot_figure

__all__ = ["MOST", "Verdict", "draw_partition", "draw_scores", "partitions", "verdicts"]

NAMES = {False: "honest device: mean and range over the rounds", True: "attacker"}
MARKS = {False: "o", True: "X"}
MOST = 200  # devices in a figure; more are not distinguishable


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One device over all its rounds."""

    device: str
    prototype: str
    examples: int
    attack: str | None
    scores: tuple[float, ...]  # median scores, if the recipe computes them
    weights: tuple[float, ...]  # shares of its prototype's average
    excluded: int  # rounds
    reason: str  # of its last exclusion
    capped: int = 0  # rounds in which its examples were capped
    claim: str = ""  # text of the last cap
    own_accuracy: float | None = None  # of its own model, when last scored
    whole_accuracy: float | None = None
    lost: int = 0  # rounds without a usable update
    why_lost: str = ""  # of the last loss

    @property
    def values(self) -> tuple[float, ...]:
        """The values to draw: scores, or weights if there are none."""
        return self.scores or self.weights


def verdicts(run: RunFacts) -> list[Verdict]:
    """All devices, sorted by prototype, then by device."""
    order = {name: place for place, name in enumerate(run.prototypes)}
    rows = []
    for device in sorted(run.fleet, key=lambda d: (order.get(d.prototype, len(order)), d.device)):
        judged = [by_device[device.device] for by_device in run.judged if device.device in by_device]
        claims = [j.capped for j in judged if j.capped is not None]
        scored = [j for j in judged if j.whole_accuracy is not None]
        reasons = [j.screened for j in judged if j.screened is not None]
        failures = [r.lost[device.device] for r in run.rounds if device.device in r.lost]
        rows.append(
            Verdict(
                device=device.device,
                prototype=device.prototype,
                examples=device.examples,
                attack=device.attack,
                scores=tuple(j.score for j in judged if j.score is not None),
                weights=tuple(j.weight for j in judged if j.weight is not None),
                excluded=len(reasons),
                reason=reasons[-1] if reasons else "",
                capped=len(claims),
                claim=capped_text(asdict(claims[-1])) if claims else "",
                own_accuracy=scored[-1].own_accuracy if scored else None,
                whole_accuracy=scored[-1].whole_accuracy if scored else None,
                lost=len(failures),
                why_lost=failures[-1] if failures else "",
            )
        )
    return rows


def draw_scores(runs: Sequence[RunFacts], theme: Theme) -> Figure | None:
    """A panel per run, a mark per device: the mean over the rounds, with the range; crosses are attackers."""
    shown = [(run, rows) for run in runs if (rows := [v for v in verdicts(run) if v.values][:MOST])]
    if not shown:
        return None
    figure, panels = grid(len(shown), theme, across=1, height=2.5)
    for axes, (run, rows) in zip(panels, shown, strict=True):
        _scores(axes, rows, theme)
        if len(runs) > 1:
            name_panel(axes, run.name, theme, most=80)
    kinds = (False, True) if any(run.attackers for run, _ in shown) else (False,)
    marks = {NAMES[attacker]: _mark(theme, attacker=attacker) for attacker in kinds}
    legend(figure, marks, theme)
    return figure


def _mark(theme: Theme, *, attacker: bool) -> Line2D:
    colour = theme.alarm if attacker else theme.colours[0]
    return Line2D([], [], linestyle="", markersize=7, marker=MARKS[attacker], color=colour)


def _scores(axes: Axes, rows: Sequence[Verdict], theme: Theme) -> None:
    for attacker in (False, True):
        mine = [(x, v.values) for x, v in enumerate(rows) if (v.attack is not None) == attacker]
        if not mine:
            continue
        xs = [x for x, _ in mine]
        colour = _mark(theme, attacker=attacker).get_color()
        axes.vlines(xs, [min(v) for _, v in mine], [max(v) for _, v in mine], color=colour, alpha=0.45, linewidth=2)
        size = 7 if len(rows) <= 40 else 3.5
        axes.plot(xs, [fmean(v) for _, v in mine], MARKS[attacker], color=colour, markersize=size)
    changes = [x for x in range(1, len(rows)) if rows[x].prototype != rows[x - 1].prototype]
    for x in changes:
        axes.axvline(x - 0.5, color=theme.line, linewidth=1)
    for x in [0, *changes]:
        axes.annotate(
            short(rows[x].prototype),
            (x - 0.4, 1),
            xycoords=("data", "axes fraction"),
            va="top",
            fontsize=8,
            color=theme.grey,
        )
    axes.set_ylabel("median score" if any(v.scores for v in rows) else "share of its average")
    axes.set_xlim(-0.6, len(rows) - 0.4)
    top = max(max(v.values) for v in rows) or 1.0
    axes.set_ylim(-0.04 * top, 1.18 * top)  # room for marks at 0, and for the prototypes' names
    names = [v.device.removeprefix("sim-") for v in rows] if len(rows) <= 40 else []
    axes.set_xticks(range(len(names)), names)
    axes.set_xlabel("device" if names else f"{len(rows)} devices, by prototype")


def partitions(runs: Sequence[RunFacts]) -> list[tuple[str, RunFacts]]:
    """The distinct partitions, each with the names of its runs and one of them."""
    by_partition: dict[tuple[object, ...], list[RunFacts]] = {}
    for run in runs:
        classes = {len(d.labels) for d in run.fleet}
        if len(classes) == 1 and classes != {0}:
            key = tuple((d.device, tuple(d.labels), d.attack) for d in run.fleet)
            by_partition.setdefault(key, []).append(run)
    return [(", ".join(run.name for run in same), same[0]) for same in by_partition.values()]


def draw_partition(run: RunFacts, theme: Theme) -> Figure:
    """The dot plot of one run's devices; attackers are marked by crosses."""
    counts = np.array([d.labels for d in run.fleet], np.int64)
    attackers = [index for index, d in enumerate(run.fleet) if d.attack is not None]
    classes = [str(n) for n in range(counts.shape[1])]
    return dotplot_figure(counts, classes, title="", theme=theme, attackers=attackers, dpi=DPI)
