"""Plots a partition: a dot for each device and class, whose area is the number of samples."""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from core.errors import ConfigError
from core.files import write_atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fleet.report.figures.style import Theme

__all__ = ["MOST_DEVICES", "count_labels", "dotplot_figure", "draw_dotplot"]

MOST_DEVICES = 200  # more columns are not distinguishable

Counts = npt.NDArray[np.int64]


def count_labels(
    labels: npt.NDArray[np.int64], parts: Sequence[npt.NDArray[np.int64]], classes: int
) -> npt.NDArray[np.int64]:
    """Samples by device and class (K, C)."""
    return np.array([np.bincount(labels[part], minlength=classes) for part in parts], np.int64)


def draw_dotplot(counts: Counts, class_names: Sequence[str], path: Path, *, title: str) -> None:
    """Draw `counts` (K, C) as PNG: devices from left to right, classes from bottom to top."""
    figure = dotplot_figure(counts, class_names, title=title)
    image = io.BytesIO()
    figure.savefig(image, format="png")
    write_atomic(path, image.getvalue())


def dotplot_figure(
    counts: Counts,
    class_names: Sequence[str],
    *,
    title: str = "",
    theme: Theme | None = None,
    attackers: Collection[int] = (),
    dpi: int = 110,
) -> Figure:
    """The plot as a figure; adversarial devices are marked by crosses below it."""
    try:
        from matplotlib.figure import Figure

        from fleet.report.figures.style import LIGHT
    except ImportError:
        raise ConfigError(
            "drawing needs matplotlib, which is missing; run: pip install 'edgestill[aggregator]'"
        ) from None
    theme = LIGHT if theme is None else theme
    shown = counts[:MOST_DEVICES]
    devices, classes = shown.shape
    width, height = _cell(devices, 7.2, 0.34), _cell(classes, 7.2, 0.30)  # inches
    size = (max(devices * width, 4.2) + 1.5, classes * height + 1.35)
    figure = Figure(figsize=size, dpi=dpi, layout="constrained", facecolor=theme.ground)
    axes = figure.subplots()
    _axes(axes, devices, class_names, theme)
    crossed = [index for index in attackers if index < devices]
    _dots(axes, shown, crossed, _diameter(width, height), theme)
    _captions(axes, title, _note(counts, shown, crossed), theme)
    return figure


def _dots(axes: Axes, shown: Counts, attackers: Sequence[int], diameter: float, theme: Theme) -> None:
    """A dot for each device and class, the largest of `diameter` points; crosses below the attackers."""
    device, label = np.nonzero(shown)
    area = diameter**2 * shown[device, label] / max(int(shown.max()), 1)
    axes.scatter(device, label, s=np.maximum(area, 0.15), color=theme.colours[0], alpha=0.9, linewidths=0, zorder=2)
    if attackers:
        below = [-0.35] * len(attackers)
        axes.plot(attackers, below, "X", color=theme.alarm, markersize=5, clip_on=False, zorder=3)


def _captions(axes: Axes, title: str, note: str, theme: Theme) -> None:
    axes.set_title(title, loc="left", fontsize=11, pad=22, color=theme.ink)
    axes.annotate(
        note,
        (0, 1),
        (0, 8),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=8,
        color=theme.grey,
    )


def _note(counts: Counts, shown: Counts, attackers: Sequence[int]) -> str:
    note = f"dot area = samples; the largest dot is {int(shown.max()):,}, the devices hold {int(counts.sum()):,} in all"
    more = f"; the first {MOST_DEVICES} of {len(counts):,} devices are shown" if len(counts) > MOST_DEVICES else ""
    return note + more + ("; crosses are attackers" if attackers else "")


def _cell(count: int, most: float, largest: float) -> float:
    """Inches of one of `count` rows or columns: `largest`, or less if all must fit into `most`."""
    return min(largest, most / count)


def _diameter(width: float, height: float) -> float:
    """Points of the largest dot: it fills its cell, and may overlap its neighbours if cells are tiny."""
    cell = min(width, height)
    return 72 * (0.94 * cell if cell > 0.15 else max(1.6 * cell, 0.1))


def _axes(axes: Axes, devices: int, class_names: Sequence[str], theme: Theme) -> None:
    axes.set_facecolor(theme.ground)
    classes = len(class_names)
    axes.set_xlim(-0.6, devices - 0.4)
    axes.set_ylim(-0.6, classes - 0.4)
    step = _step(devices)
    axes.set_xticks(range(0, devices, step))
    if classes <= 20:
        axes.set_yticks(range(classes), [name if len(name) <= 16 else f"{name[:15]}…" for name in class_names])
    else:
        axes.set_yticks(range(0, classes, _step(classes)))
    if classes > 20 or all(name.isdigit() for name in class_names):
        axes.set_ylabel("class", fontsize=9, color=theme.grey)
    axes.set_xlabel("device", fontsize=9, color=theme.grey)
    axes.tick_params(colors=theme.grey, labelsize=8, length=0)
    axes.grid(color=theme.line, linewidth=0.6, zorder=0)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)


def _step(count: int) -> int:
    """Spacing of ticks: 1 up to 25, then 5, 10 or 20."""
    return next(step for step, most in ((1, 25), (5, 60), (10, 120), (20, 1 << 62)) if count <= most)
