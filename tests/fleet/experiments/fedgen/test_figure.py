"""Curves of FedGen's fleets, a panel per setting."""

from __future__ import annotations

import pytest

from fleet.experiments.fedgen.figure import panels_by
from fleet.experiments.registry import find_experiment
from tests.fleet.experiments.fedgen.made_up import made_up

RESULTS = {
    ("reference", 0): {"a": {"round": [10, 20], "slices": [1.0, 2.0]}, "b": {"round": [5], "slices": [9.0]}},
    ("reference", 1): {"a": {"round": [10, 20], "slices": [3.0, 6.0]}},
    ("paper", 0): {"a": {"round": [10, 20], "slices": [99.0, 99.0]}, "c": {"round": [10], "slices": [1.0]}},
}


def test_a_line_is_the_mean_over_the_seeds_of_the_first_fidelity() -> None:
    (axes,) = panels_by("title", RESULTS, {"panel": {"A": "a", "B": "b", "C": "c"}}).axes
    lines = {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines}
    assert lines == {"A": ([10, 20], [2.0, 4.0]), "B": ([5], [9.0])}


def test_a_panel_of_which_nothing_was_measured_is_left_out() -> None:
    figure = panels_by("title", RESULTS, {"none": {"C": "c"}, "first": {"A": "a"}, "second": {"B": "b"}})
    assert [axes.get_title() for axes in figure.axes] == ["first", "second"]
    assert [bool(axes.get_ylabel()) for axes in figure.axes] == [True, False]


@pytest.mark.parametrize("name", ["fedgen-table1", "fedgen-table4", "fedgen-sensitivity"])
def test_no_line_is_lost_and_those_of_a_panel_differ_in_colour(name: str) -> None:
    experiment = find_experiment(name)
    results = made_up(name, "reference")
    assert experiment.draw is not None
    panels = [list(axes.lines) for axes in experiment.draw({("reference", 0): results}).axes]
    assert all(len({line.get_color() for line in lines}) == len(lines) for lines in panels)
    bases = {run for run in results if run.startswith("FedAvg active")}
    shared = sum(len(lines) for lines in panels) - (len(panels) - 1 if "sensitivity" in name else 0)
    assert shared == len(results.keys() - bases)
