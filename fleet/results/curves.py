"""`curves.png`: accuracy by round and size of one update, for each prototype of a run."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, isnan
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from core.files import write_atomic
from fleet.report.figures.style import COLOURS, LIGHT, by_round, panel, png, series, short
from fleet.report.summary import ensemble
from fleet.results.run_file import RoundResult, Run

__all__ = ["COLOURS", "GREY", "Curves", "curves_of", "draw_curves"]

GREY = LIGHT.grey
TITLE, LABEL, TICK = 110, 40, 18  # characters that fit


class Curves(Figure):
    """A figure that notebooks show without pyplot."""

    def _repr_png_(self) -> bytes:
        return png(self)


def curves_of(run: Run) -> Curves:
    """The figure of a run with at least one round."""
    c = run.config
    split = f"{c['partition']} alpha {c['alpha']}"
    title = f"{c['dataset']}, {c['devices']} devices, {split}: {c['recipe']}, seed {c['seed']}"
    scored = [r for r in run.rounds if all(isfinite(p.accuracy) for p in r.prototypes.values())]
    return _figure(scored or run.rounds, title)


def draw_curves(run: Run, path: Path) -> None:
    """Write `curves_of` as a PNG file."""
    write_atomic(path, png(curves_of(run)))


def _figure(rounds: Sequence[RoundResult], title: str) -> Curves:
    figure = Curves(figsize=(9.5, 4.0), dpi=150, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 1.6))
    figure.suptitle(short(title, TITLE), x=0.01, ha="left", fontsize=11)
    _accuracy(left, rounds)
    _update_sizes(right, rounds)
    return figure


def _accuracy(axes: Axes, rounds: Sequence[RoundResult]) -> None:
    panel(axes, LIGHT)
    for index, name in enumerate(rounds[0].prototypes):
        measured = [(r.round, r.prototypes[name]) for r in rounds if name in r.prototypes]
        results = [(round_number, p) for round_number, p in measured if not isnan(p.accuracy)]
        if not results:
            continue
        style = {**series(index, LIGHT), "markersize": 3}
        values = [100 * p.quality for _, p in results]
        axes.plot([n for n, _ in results], values, label=f"{short(name, LABEL)}  {values[-1]:.1f} %", **style)
        full = [(n, 100 * p.accuracy_float) for n, p in results if p.accuracy_float is not None]
        if full:
            dotted = {**style, "linestyle": ":", "marker": ""}
            axes.plot(
                *zip(*full, strict=True), label=f"{short(name, LABEL)}, float weights  {full[-1][1]:.1f} %", **dotted
            )
    together = [(r.round, 100 * score) for r in rounds if (score := ensemble(r)) is not None]
    if together:
        label = f"ensemble  {together[-1][1]:.1f} %"
        axes.plot(*zip(*together, strict=True), color=LIGHT.ink, linestyle="--", linewidth=1.2, label=label)
    axes.set_ylabel("test accuracy, %")
    axes.set_ylim(0, 100)
    by_round(axes, [r.round for r in rounds])
    if axes.get_legend_handles_labels()[0]:  # empty if no round was scored
        axes.legend(loc="lower right", fontsize=8, frameon=False)


def _update_sizes(axes: Axes, rounds: Sequence[RoundResult]) -> None:
    """Bars: bytes of one update of each prototype, in the last round."""
    panel(axes, LIGHT)
    last = rounds[-1].prototypes
    sizes = {name: result.bytes_up / max(result.devices, 1) / 1000 for name, result in last.items()}
    names = list(reversed(sizes))
    colours = [COLOURS[list(sizes).index(name) % len(COLOURS)] for name in names]
    bars = axes.barh(range(len(names)), [sizes[name] for name in names], color=colours, height=0.5)
    axes.bar_label(bars, labels=[f"{sizes[name]:.1f} kB" for name in names], padding=3, fontsize=8, color=GREY)
    axes.set_yticks(range(len(names)), [short(name, TICK) for name in names])
    axes.set_xlabel("one update, kB on the wire")
    axes.margins(x=0.25)
    axes.grid(visible=False)
    axes.tick_params(axis="y", labelsize=9, labelcolor="black", length=0)
