"""Accuracy by round: a line per prototype, and runs against each other."""

from pathlib import Path

import pytest

from fleet.report.figures.accuracy import draw_accuracy, draw_comparison, prototypes_of
from fleet.report.figures.style import LIGHT
from tests.fleet.report.made import BIT, CNN, a_run, facts, lines


def test_curves_are_those_of_the_prototypes_with_precision_and_ensemble(tmp_path: Path) -> None:
    found = lines(draw_accuracy([facts(tmp_path / "run")], LIGHT))
    assert found[CNN] == pytest.approx([50, 70, 90])
    assert found[BIT] == pytest.approx([25, 45, 65]), "the bold line is what boards run"
    assert found[f"{BIT}, float weights"] == pytest.approx([37.5, 57.5, 77.5])
    assert found["ensemble"] == pytest.approx([95, 95, 95])


def test_a_prototype_has_one_colour_in_all_panels(tmp_path: Path) -> None:
    turned = a_run()
    for number, result in enumerate(turned.rounds):
        turned.rounds[number].prototypes.update(dict(reversed(result.prototypes.items())))
    runs = [facts(tmp_path / "a"), facts(tmp_path / "b", turned)]
    figure = draw_accuracy(runs, LIGHT)
    colours = [{ln.get_label(): ln.get_color() for ln in axes.lines} for axes in figure.axes]
    assert colours[0][CNN] == colours[1][CNN] != colours[0][BIT]


def test_runs_are_compared_by_the_mean_of_their_prototypes(tmp_path: Path) -> None:
    runs = [facts(tmp_path / "a"), facts(tmp_path / "b", a_run((0.3, 0.4, 0.5)))]
    figure = draw_comparison(runs, LIGHT)
    assert figure is not None
    assert lines(figure)["b"] == pytest.approx([17.5, 27.5, 37.5])
    assert draw_comparison(runs[:1], LIGHT) is None


def test_prototypes_are_counted_once_in_the_order_of_the_runs(tmp_path: Path) -> None:
    assert prototypes_of([facts(tmp_path / "a"), facts(tmp_path / "b")]) == [CNN, BIT]


def test_a_recipe_without_an_ensemble_has_no_line_of_it(tmp_path: Path) -> None:
    assert "ensemble" not in lines(draw_accuracy([facts(tmp_path / "run", a_run(scored=False))], LIGHT))
