"""The figures of a report: there when there is something to show, in the order of the page."""

import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.report.figures.catalogue import Picture, draw_all
from tests.fleet.report.made import a_run, facts


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Picture]:
    """Those of a single run."""
    return draw_all([facts(tmp_path_factory.mktemp("single") / "run")], 0.7)


def test_a_single_run_has_no_comparison_and_no_boards(pictures: list[Picture]) -> None:
    assert [p.name for p in pictures] == ["accuracy", "rounds", "bytes", "scores", "partition", "time"]
    assert all(p.light != p.dark for p in pictures)


def test_several_runs_are_compared_and_different_partitions_numbered(tmp_path: Path) -> None:
    other = a_run()
    other.fleet[0]["labels"] = [9, 1]
    names = [p.name for p in draw_all([facts(tmp_path / "a"), facts(tmp_path / "b", other)], 0.7)]
    assert names[0] == "comparison"
    assert names[-3:] == ["partition-1", "partition-2", "time"]


def test_words_say_what_a_picture_shows(pictures: list[Picture]) -> None:
    by_name = {p.name: p for p in pictures}
    assert by_name["accuracy"].alt == "run after round 3: cnn:fp32 90.0 %, cnn:w1 65.0 %"
    assert by_name["rounds"].title == "Rounds to 70 %"
    assert by_name["rounds"].alt == "run, cnn:fp32: round 2; run, cnn:w1: not reached"
    assert by_name["scores"].alt == "run: attackers are sim-3"


def test_long_names_do_not_break_a_figure(tmp_path: Path) -> None:
    long = "a_very_long_name_that_somebody_has_chosen_" * 3
    run = a_run()
    rounds = [replace(r, prototypes={f"{long}{n}": p for n, p in r.prototypes.items()}) for r in run.rounds]
    fleet = [{**device, "prototype": f"{long}{device['prototype']}"} for device in run.fleet]
    read = facts(tmp_path / "run", replace(run, rounds=rounds, fleet=fleet))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # "constrained_layout not applied": nothing fits any more
        assert len(draw_all([read, replace(read, name=long * 2)], 0.5)) >= 6
