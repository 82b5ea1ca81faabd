"""Rounds until a target, and bytes on the wire."""

from math import nan
from pathlib import Path

import pytest

from fleet.report.figures.style import LIGHT
from fleet.report.figures.traffic import draw_bytes, draw_rounds_to_target
from tests.fleet.report.made import CNN, a_run, facts, result, texts


def test_the_target_is_marked_where_it_was_reached_and_said_where_not(tmp_path: Path) -> None:
    figure = draw_rounds_to_target([facts(tmp_path / "run")], LIGHT, 0.7)
    assert texts(figure) == ["round 2", "not reached"]


def test_bytes_add_up_from_round_to_round(tmp_path: Path) -> None:
    figure = draw_bytes([facts(tmp_path / "run")], LIGHT)
    assert list(figure.axes[0].lines[0].get_xdata()) == pytest.approx([4, 8, 12])
    assert list(figure.axes[0].lines[1].get_xdata()) == pytest.approx([3.01, 6.02, 9.03])


def test_rounds_without_a_score_count_for_the_bytes_of_the_next(tmp_path: Path) -> None:
    run = a_run()
    run.rounds[1].prototypes[CNN] = result(nan)
    line = draw_bytes([facts(tmp_path / "run", run)], LIGHT).axes[0].lines[0]
    assert list(line.get_xdata()) == pytest.approx([4, 12])
    assert list(line.get_ydata()) == pytest.approx([50, 90])
