"""Where the time of a run went."""

from dataclasses import replace
from pathlib import Path

import pytest

from fleet.report.figures.style import LIGHT, png
from fleet.report.figures.times import draw_times
from tests.fleet.report.made import a_run, facts, texts


def test_bars_of_time_end_at_the_sum(tmp_path: Path) -> None:
    figure = draw_times([facts(tmp_path / "run")], LIGHT)
    assert max(patch.get_x() + patch.get_width() for patch in figure.axes[0].patches) == pytest.approx(30)
    assert texts(figure) == ["30.0 s"]


def test_the_same_run_gives_the_same_picture(tmp_path: Path) -> None:
    run = facts(tmp_path / "run")
    assert png(draw_times([run], LIGHT)) == png(draw_times([run], LIGHT))


def test_runs_stand_below_each_other_and_long_ones_are_told_in_minutes(tmp_path: Path) -> None:
    slow = a_run()
    slow.rounds[:] = [replace(result, seconds=100.0) for result in slow.rounds]
    figure = draw_times([facts(tmp_path / "a"), facts(tmp_path / "b", slow)], LIGHT)
    assert texts(figure) == ["30.0 s", "5.0 min"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["a", "b"]
