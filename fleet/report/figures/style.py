"""The look of figures: two themes, a palette for colour-blind readers, and marks that do not depend on colour."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

__all__ = [
    "ACROSS",
    "COLOURS",
    "DARK",
    "DPI",
    "LIGHT",
    "Theme",
    "by_round",
    "grid",
    "labelled",
    "legend",
    "name_panel",
    "panel",
    "png",
    "series",
    "short",
]

#: Okabe and Ito's palette, distinguishable for colour-blind readers.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#777777", "#000000")
#: The same hues, light enough for a dark page.
ON_DARK = ("#56B4E9", "#E69F00", "#2FC49A", "#E3A1C6", "#FF8A4C", "#9AB8FF", "#B0B7BF", "#FFFFFF")
MARKERS = "os^DvPX*"
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (4, 1.2, 1, 1.2)))
ACROSS = 3  # panels in a row
HANDLE_INCH, CHARACTER_INCH = 0.65, 0.075  # of an entry of a legend, at its size of letters
LABEL = 100  # characters that fit into the width of a figure
DPI = 150  # sharp on high-density screens


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """Colours of one page: background, text, lines, and series."""

    name: str
    ground: str
    ink: str
    grey: str
    line: str
    alarm: str  # of attackers, which also have their own mark
    colours: tuple[str, ...]


LIGHT = Theme(
    name="light", ground="#ffffff", ink="#1c2128", grey="#5c6670", line="#e2e6ea", alarm="#C4420A", colours=COLOURS
)
DARK = Theme(
    name="dark", ground="#171b21", ink="#e8ebee", grey="#a3adb8", line="#303740", alarm="#FF7A45", colours=ON_DARK
)


def series(index: int, theme: Theme) -> dict[str, Any]:
    """Colour, mark and dashes of the n-th line; lines that share one property differ in another."""
    return {
        "color": theme.colours[index % len(theme.colours)],
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": DASHES[index // len(MARKERS) % len(DASHES)],
        "linewidth": 1.8,
        "markersize": 4.5,
    }


def grid(
    count: int, theme: Theme, *, across: int = ACROSS, width: float = 9.6, height: float = 3.2
) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels, at most `across` in a row; a single one has the whole width."""
    across = min(count, across)
    down = -(-count // across)
    figure = Figure(figsize=(width, height * down + 0.5), dpi=DPI, layout="constrained", facecolor=theme.ground)
    cells = figure.subplots(down, across, squeeze=False).ravel()
    for axes in cells[count:]:
        axes.remove()
    for axes in cells[:count]:
        panel(axes, theme)
    return figure, list(cells[:count])


def panel(axes: Axes, theme: Theme) -> None:
    """Style of a panel: no frame, light axes."""
    axes.set_facecolor(theme.ground)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(theme.line)
    axes.tick_params(which="both", labelcolor=theme.grey, labelsize=8, length=3, color=theme.line)
    axes.grid(axis="y", color=theme.line, linewidth=0.7)
    axes.set_axisbelow(True)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(theme.grey)
        label.set_fontsize(9)


def name_panel(axes: Axes, name: str, theme: Theme, *, most: int = 34) -> None:
    """Set a panel's title."""
    axes.set_title(short(name, most), loc="left", fontsize=9, color=theme.ink)


def by_round(axes: Axes, rounds: Sequence[int]) -> None:
    """Integer ticks from the first to the last round."""
    axes.set_xlabel("round")
    axes.set_xlim(min(rounds) - 0.2, max(rounds) + 0.2)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def legend(figure: Figure, artists: Mapping[str, Artist], theme: Theme, *, across: int = 5) -> None:
    """One legend for all panels, below them; `artists` maps labels to lines or patches.

    Long labels take fewer columns, and those that a line cannot hold are shortened at their start.
    """
    labels = [short(label, LABEL) for label in artists]
    wide = HANDLE_INCH + CHARACTER_INCH * max(map(len, labels), default=0)
    figure.legend(
        list(artists.values()),
        labels,
        loc="outside lower center",
        ncols=max(1, min(len(artists), across, int(figure.get_figwidth() / wide))),
        fontsize=8.5,
        frameon=False,
        labelcolor=theme.ink,
        handlelength=3,
    )


def labelled(panels: Sequence[Axes]) -> dict[str, Artist]:
    """The labelled lines of all panels, each label once."""
    return {label: line for axes in panels for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}


def png(figure: Figure) -> bytes:
    """The figure as PNG; equal figures give equal bytes."""
    image = io.BytesIO()
    figure.savefig(image, format="png", facecolor=figure.get_facecolor(), metadata={"Software": None})
    return image.getvalue()


def short(text: str, most: int = 34) -> str:
    """A name that fits above a panel, shortened at its start; dollar signs are escaped for Matplotlib.

    >>> short("sweep/runs/alpha=0.1", 12)
    '…s/alpha=0.1'
    """
    return (text if len(text) <= most else f"…{text[1 - most :]}").replace("$", r"\$")
