"""Facts and targets."""

import math

import pytest

from fleet.experiments.base import Cell, Fact, Target, above, at_least, at_most, below, difference, fact, within

RESULTS = {"a": {"error": 0.05}, "b": {"error": 0.02}}


def test_a_fact_reads_one_number_of_one_run() -> None:
    error = fact("a", "error", scale=100)
    assert error.value(RESULTS) == pytest.approx(5)
    assert error.runs == ("a",)


def test_a_difference_needs_both_runs() -> None:
    gain = difference(fact("a", "error"), fact("b", "error"))
    assert gain.value(RESULTS) == pytest.approx(0.03)
    assert gain.runs == ("a", "b")


@pytest.mark.parametrize(
    ("target", "met", "not_met", "words"),
    [
        (above(5), 5.1, 5.0, "> 5"),
        (at_least(5), 5.0, 4.9, ">= 5"),
        (below(5), 4.9, 5.0, "< 5"),
        (at_most(5), 5.0, 5.1, "<= 5"),
        (within(1.0, of=5.24), 6.2, 6.3, "5.24 ± 1"),
        (within(1.0, of=5.24), 4.3, 4.2, "5.24 ± 1"),
    ],
)
def test_targets(target: Target, met: float, not_met: float, words: str) -> None:
    assert isinstance(target.bound, (int, float))
    assert target.met(met, target.bound)
    assert not target.met(not_met, target.bound)
    assert not target.met(math.nan, target.bound)
    assert target.text(target.bound) == words


def test_a_bound_that_was_measured_names_its_run_and_is_needed() -> None:
    cell = Cell("x", fact("a", "error"), target=above(fact("b", "error")))
    assert cell.runs == ("a", "b")
    assert cell.target is not None
    assert cell.target.text(0.021) == "> 0.02 (b)"


def test_a_cell_may_be_made_of_many_runs() -> None:
    worst = Fact(("a", "b"), lambda results: max(results[run]["error"] for run in ("a", "b")), "the worst")
    assert Cell("x", worst).runs == ("a", "b")
    assert worst.value(RESULTS) == 0.05
