"""`curves.png`: accuracy by round, and what one update weighs, for each prototype of a run."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fleet.runs import RoundResult
from wire.files import write_atomic

__all__ = ["draw_curves"]

#: Okabe and Ito's palette: told apart by the colour-blind too.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#777777", "#000000")
GREY = "#666666"


def draw_curves(rounds: Sequence[RoundResult], path: Path, *, title: str) -> None:
    """Draw the figure of a run that has at least one round."""
    figure = Figure(figsize=(9.5, 4.0), dpi=150, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 1.6))
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    _accuracy(left, rounds)
    _update_sizes(right, rounds)
    image = io.BytesIO()
    figure.savefig(image, format="png")
    write_atomic(path, image.getvalue())


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=GREY, labelsize=8)


def _accuracy(axes: Axes, rounds: Sequence[RoundResult]) -> None:
    numbers = [r.round for r in rounds]
    for index, name in enumerate(rounds[0].prototypes):
        results = [r.prototypes[name] for r in rounds]
        values = [100 * r.accuracy for r in results]
        style: dict[str, Any] = {"color": _colour(index), "linewidth": 1.8}
        axes.plot(numbers, values, marker="o", markersize=3, label=f"{name}  {values[-1]:.1f} %", **style)
        if results[-1].accuracy_quantized is not None:
            quantized = [100 * (r.accuracy_quantized or 0) for r in results]
            label = f"{name} on the device  {quantized[-1]:.1f} %"
            axes.plot(numbers, quantized, linestyle=":", label=label, **style)
    axes.set_xlabel("round", fontsize=9)
    axes.set_ylabel("test accuracy, %", fontsize=9)
    axes.set_ylim(0, 100)
    axes.set_xlim(min(numbers) - 0.2, max(numbers) + 0.2)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.legend(loc="lower right", fontsize=8, frameon=False)
    _plain(axes)


def _update_sizes(axes: Axes, rounds: Sequence[RoundResult]) -> None:
    """Bars: bytes of one update of each prototype, in the last round."""
    last = rounds[-1].prototypes
    sizes = {name: result.bytes_up / max(result.devices, 1) / 1000 for name, result in last.items()}
    names = list(reversed(sizes))
    colours = [_colour(list(sizes).index(name)) for name in names]
    bars = axes.barh(names, [sizes[name] for name in names], color=colours, height=0.5)
    axes.bar_label(bars, labels=[f"{sizes[name]:.1f} kB" for name in names], padding=3, fontsize=8, color=GREY)
    axes.set_xlabel("one update, kB on the wire", fontsize=9)
    axes.margins(x=0.25)
    _plain(axes)
    axes.tick_params(axis="y", labelsize=9, colors="black", length=0)
