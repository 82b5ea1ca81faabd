"""How figures look: two themes, colours that the colour-blind tell apart, and marks that need no colour at all."""

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
    "legend",
    "name_panel",
    "panel",
    "png",
    "series",
    "short",
]

#: Okabe and Ito's palette: told apart by the colour-blind too.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#777777", "#000000")
#: The same hues, light enough for a dark page.
ON_DARK = ("#56B4E9", "#E69F00", "#2FC49A", "#E3A1C6", "#FF8A4C", "#9AB8FF", "#B0B7BF", "#FFFFFF")
MARKERS = "os^DvPX*"
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (4, 1.2, 1, 1.2)))
ACROSS = 3  # panels side by side
DPI = 150  # sharp on dense screens too


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """Colours of one page: what is behind, what is written, lines, and the series."""

    name: str
    ground: str
    ink: str
    grey: str
    line: str
    alarm: str  # of attackers, which have a mark of their own too
    colours: tuple[str, ...]


LIGHT = Theme(
    name="light", ground="#ffffff", ink="#1c2128", grey="#5c6670", line="#e2e6ea", alarm="#C4420A", colours=COLOURS
)
DARK = Theme(
    name="dark", ground="#171b21", ink="#e8ebee", grey="#a3adb8", line="#303740", alarm="#FF7A45", colours=ON_DARK
)


def series(index: int, theme: Theme) -> dict[str, Any]:
    """Colour, mark and dashes of the n-th line: two lines that share one differ in another."""
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
    """A figure with `count` panels, at most `across` in a row; one alone has the whole width."""
    across = min(count, across)
    down = -(-count // across)
    figure = Figure(figsize=(width, height * down + 0.5), dpi=DPI, layout="constrained", facecolor=theme.ground)
    found = figure.subplots(down, across, squeeze=False).ravel()
    for axes in found[count:]:
        axes.remove()
    for axes in found[:count]:
        panel(axes, theme)
    return figure, list(found[:count])


def panel(axes: Axes, theme: Theme) -> None:
    """No box around the picture, quiet axes."""
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
    """Whose panel it is."""
    axes.set_title(short(name, most), loc="left", fontsize=9, color=theme.ink)


def by_round(axes: Axes, rounds: Sequence[int]) -> None:
    """Whole numbers from the first to the last round."""
    axes.set_xlabel("round")
    axes.set_xlim(min(rounds) - 0.2, max(rounds) + 0.2)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def legend(figure: Figure, found: Mapping[str, Artist], theme: Theme, *, across: int = 5) -> None:
    """Label to line or patch: one legend for all panels, below them."""
    figure.legend(
        list(found.values()),
        list(found),
        loc="outside lower center",
        ncols=min(len(found), across),
        fontsize=8.5,
        frameon=False,
        labelcolor=theme.ink,
        handlelength=3,
    )


def png(figure: Figure) -> bytes:
    """The picture's file; the same figure gives the same bytes."""
    image = io.BytesIO()
    figure.savefig(image, format="png", facecolor=figure.get_facecolor(), metadata={"Software": None})
    return image.getvalue()


def short(text: str, most: int = 34) -> str:
    """A name that fits above a panel; its end tells more than its start. Dollars are no formulas.

    >>> short("sweep/runs/alpha=0.1", 12)
    '…s/alpha=0.1'
    """
    return (text if len(text) <= most else f"…{text[1 - most :]}").replace("$", r"\$")
