"""Curves over seeds: mean and sample standard deviation by round, a band where there are several seeds."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.collections import PolyCollection

from fleet.report.figures.style import LIGHT
from fleet.sweep.spread import MEAN, MOST_LINES, best_groups, curve, draw_spread, panels_of
from fleet.sweep.stored import Group, read_stored
from tests.fleet.report.made import BIT, CNN, lines
from tests.fleet.sweep.made import swept


def groups(folder: Path, seeds: tuple[int, ...] = (0, 1)) -> list[Group]:
    return list(read_stored(swept(folder, seeds=seeds)).groups)


def test_a_curve_is_mean_and_deviation_over_the_seeds(tmp_path: Path) -> None:
    first, _ = groups(tmp_path)
    found = curve(first.runs, CNN)
    assert list(found.rounds) == [1, 2, 3]
    assert found.mean == pytest.approx([0.55, 0.65, 0.75])
    assert found.std == pytest.approx([0.1 / 2**0.5] * 3)  # of the sample 0, 0.1
    assert curve(first.runs, MEAN).mean == pytest.approx([0.425, 0.525, 0.625])  # the 1-bit model is 0.25 worse
    assert list(curve(first.runs, "mlp:fp32").rounds) == []


def test_rounds_that_one_seed_has_not_scored_are_left_out(tmp_path: Path) -> None:
    first, _ = groups(tmp_path)
    short = replace(first.runs[1], rounds=first.runs[1].rounds[:2])
    assert list(curve([first.runs[0], short], CNN).rounds) == [1, 2]


def test_every_panel_has_a_line_and_a_band_for_each_point(tmp_path: Path) -> None:
    several = groups(tmp_path)
    assert panels_of(several) == [MEAN, CNN, BIT]
    figure = draw_spread(several, LIGHT)
    assert len(figure.axes) == 3
    assert lines(figure, 1)["recipe=fedrad"] == pytest.approx([60, 70, 80])
    (band, _) = [c for c in figure.axes[1].collections if isinstance(c, PolyCollection)]
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.max() == pytest.approx(75 + 10 / 2**0.5)


def test_one_seed_has_no_band(tmp_path: Path) -> None:
    figure = draw_spread(groups(tmp_path, seeds=(0,)), LIGHT)
    assert [c for axes in figure.axes for c in axes.collections if isinstance(c, PolyCollection)] == []


def test_of_many_points_the_best_are_shown_in_their_order(tmp_path: Path) -> None:
    first, second = groups(tmp_path)
    many = [Group({"alpha": n}, (second if n % 2 else first).runs, []) for n in range(20)]
    shown = best_groups(many)
    assert len(shown) == MOST_LINES
    assert {n for n in range(20) if n % 2} <= {group.point["alpha"] for group in shown}
    assert [g.point["alpha"] for g in shown] == sorted(g.point["alpha"] for g in shown)


def test_long_names_do_not_break_the_figure(tmp_path: Path) -> None:
    several = [Group({"dataset": f"/a/{'very-' * 60}long/{n}.npz"}, g.runs, []) for n, g in enumerate(groups(tmp_path))]
    figure = draw_spread(several, LIGHT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # "constrained_layout not applied": nothing fits any more
        figure.canvas.draw()
    assert all(axes.get_position().width > 0.15 and axes.get_position().height > 0.2 for axes in figure.axes)
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width
