"""Lines are told apart without colour, words can be read, panels fit."""

import numpy as np
import pytest

from fleet.report.figures.style import COLOURS, DARK, LIGHT, ON_DARK, grid, png, series, short


def test_two_lines_never_look_alike_in_grey() -> None:
    looks = [(style["marker"], str(style["linestyle"])) for style in (series(n, LIGHT) for n in range(24))]
    assert len(set(looks)) == 24


def contrast(a: str, b: str) -> float:
    """WCAG's contrast ratio of two colours."""

    def luminance(colour: str) -> float:
        rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_what_is_written_can_be_read_and_lines_can_be_seen(theme) -> None:
    assert contrast(theme.ink, theme.ground) > 12
    assert contrast(theme.grey, theme.ground) > 4.5
    assert contrast(theme.alarm, theme.ground) > 4.5
    assert all(contrast(colour, theme.ground) > 2.2 for colour in theme.colours)


def test_both_themes_have_as_many_colours() -> None:
    assert len(set(COLOURS)) == len(set(ON_DARK)) == 8


def test_names_are_no_formulas_and_not_too_long() -> None:
    assert short("a$b$") == r"a\$b\$"
    assert short("x" * 50) == "…" + "x" * 33


@pytest.mark.parametrize(("count", "rows"), [(1, 1), (3, 1), (4, 2), (7, 3)])
def test_a_grid_has_as_many_panels_as_asked_for(count: int, rows: int) -> None:
    figure, panels = grid(count, LIGHT)
    assert len(panels) == len(figure.axes) == count
    assert len({round(axes.get_subplotspec().rowspan.start) for axes in panels}) == rows


def test_a_picture_is_a_png_of_its_theme() -> None:
    light, dark = (png(grid(1, theme, width=2, height=1)[0]) for theme in (LIGHT, DARK))
    assert light[:8] == dark[:8] == b"\x89PNG\r\n\x1a\n"
    assert light != dark
    assert b"Software" not in light
