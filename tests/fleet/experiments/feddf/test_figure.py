"""Curves of runs, mean over the seeds."""

from __future__ import annotations

from fleet.experiments.feddf.figure import Line, curves

RESULTS = {
    ("paper", 0): {"a": {"accuracy": {"p": [10.0, 20.0]}, "ensemble": {}}},
    ("paper", 1): {"a": {"accuracy": {"p": [30.0, 40.0]}, "ensemble": {}}},
}


def test_a_line_is_the_mean_over_the_seeds_and_missing_runs_are_left_out() -> None:
    panels = {
        "first": [Line("A", "a", "p"), Line("B", "b", "p"), Line("E", "a", "p", "ensemble")],
        "second": [Line("B", "b", "p")],
    }
    (first,) = curves("title", panels)(RESULTS).axes  # nothing of the second was measured
    assert [line.get_label() for line in first.lines] == ["A"]
    assert list(first.lines[0].get_ydata()) == [20.0, 30.0]
    assert (first.get_title(), first.get_ylabel()) == ("first", "test accuracy, %")


def test_panels_go_on_in_the_next_row() -> None:
    figure = curves("title", {str(n): [Line("A", "a", "p")] for n in range(6)})(RESULTS)
    rows = [axes.get_subplotspec().rowspan.start for axes in figure.axes]
    assert rows == [0, 0, 0, 0, 1, 1]
    assert [bool(axes.get_ylabel()) for axes in figure.axes] == [True, False, False, False, True, False]
