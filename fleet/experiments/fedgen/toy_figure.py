"""The pictures of FedGen's toy: regions of classes above, generated samples below."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from fleet.experiments.base import Facts
from fleet.experiments.figures import COLOURS, GREY

__all__ = ["draw"]

COLOUR_MAP = ListedColormap([COLOURS[n] for n in range(4)])
TITLES = {"user": "first user alone", "taught": "with the generator", "oracle": "oracle"}


def draw(facts: Facts, seed: int, stages: Sequence[int], side: float) -> Figure:
    """Draw the figure of one seed."""
    figure = Figure(figsize=(11.0, 5.8), dpi=150, layout="constrained")
    figure.suptitle(f"Regions and generated samples, seed {seed}; accuracy on all classes", x=0.01, ha="left", size=10)
    rows = figure.subplots(2, len(stages))
    for axes, name in zip(rows[0], TITLES, strict=False):
        pixels = [[int(digit) for digit in row] for row in facts["pictures"][name]]
        extent = (-side, side, -side, side)
        axes.imshow(pixels, cmap=COLOUR_MAP, vmin=0, vmax=3, alpha=0.35, origin="lower", extent=extent)
        _dots(axes, facts["all points" if name == "oracle" else "points"])
        _frame(axes, f"{TITLES[name]}  {facts['of user'][name]:.1f} %", side)
    for axes in rows[0][len(TITLES) :]:
        axes.set_visible(False)
    for axes, steps in zip(rows[1], stages, strict=True):
        samples = facts["samples"][str(steps)]
        each = len(samples) // 4
        _dots(axes, [[*point, n // each] for n, point in enumerate(samples)])
        wide = max(side, *(abs(v) for point in samples for v in point)) * 1.05
        _frame(axes, f"{steps} steps: {facts[f'right at {steps}']:.0f} % right", wide)
    return figure


def _dots(axes: Axes, points: Sequence[Sequence[float]]) -> None:
    xs, ys, labels = zip(*points, strict=True)
    axes.scatter(xs, ys, c=labels, cmap=COLOUR_MAP, vmin=0, vmax=3, s=6, linewidths=0)


def _frame(axes: Axes, title: str, side: float) -> None:
    axes.set_title(title, fontsize=9)
    axes.set_xlim(-side, side)
    axes.set_ylim(-side, side)
    axes.set_aspect("equal")
    axes.tick_params(labelsize=7, colors=GREY)
    for spine in axes.spines.values():
        spine.set_color(GREY)
