"""Bars of ours beside the paper's numbers."""

from __future__ import annotations

from fleet.experiments.base import Cell, fact
from fleet.experiments.figures import COLOURS, bars
from fleet.experiments.report import Row


def row(name: str, ours: float | None, paper: float | None = None, *, met: bool = True, unit: str = "%") -> Row:
    cell = Cell(name, fact("run", "value"), paper=paper, unit=unit)
    return Row(name=name, cell=cell, fidelity="paper", seeds=[0], ours=ours, std=None, target=None, met=met)


def test_a_bar_per_cell_from_above_with_missed_targets_in_another_colour() -> None:
    figure = bars("Title", [row("a", 10.0), row("b", 20.0, met=False)])
    (axes,) = figure.axes
    assert [patch.get_width() for patch in axes.patches] == [10.0, 20.0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert axes.yaxis_inverted()
    colours = [patch.get_facecolor() for patch in axes.patches]
    assert colours[0] != colours[1]
    assert COLOURS[0] != COLOURS[4]


def test_the_paper_s_number_is_a_mark_where_there_is_one() -> None:
    (axes,) = bars("Title", [row("a", 10.0, paper=11.0), row("b", 20.0), row("c", 5.0, paper=4.0)]).axes
    marks = [line for line in axes.lines if line.get_label() == "paper"]
    assert [(list(m.get_xdata()), list(m.get_ydata())) for m in marks] == [([11.0, 4.0], [0, 2])]
    (without,) = bars("Title", [row("a", 10.0)]).axes
    assert without.get_legend() is None


def test_units_are_named_once() -> None:
    (axes,) = bars("Title", [row("a", 1.0), row("b", 2.0, unit="rounds"), row("c", 3.0), row("d", 4.0, unit="")]).axes
    assert axes.get_xlabel() == "%, rounds"
