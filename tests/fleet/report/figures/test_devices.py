"""Devices one by one: what was said of them, how they are drawn, and equal partitions."""

from pathlib import Path

from fleet.report.figures.devices import MOST, draw_partition, draw_scores, partitions, verdicts
from fleet.report.figures.style import LIGHT
from tests.fleet.report.made import a_run, facts


def test_verdicts_gather_what_fusion_said_of_a_device(tmp_path: Path) -> None:
    by_name = {v.device: v for v in verdicts(facts(tmp_path / "run"))}
    assert list(by_name) == ["sim-0", "sim-2", "sim-1", "sim-3"], "by prototype"
    bad = by_name["sim-3"]
    assert (bad.attack, bad.excluded, bad.reason) == ("faulty", 3, "is hardly ever the median")
    assert bad.scores == (0.015625, 0.03125, 0.046875)


def test_attackers_have_a_mark_of_their_own(tmp_path: Path) -> None:
    figure = draw_scores([facts(tmp_path / "run")], LIGHT)
    assert figure is not None
    marks = {line.get_marker(): list(line.get_xdata()) for line in figure.axes[0].lines if len(line.get_xdata()) != 2}
    assert marks == {"o": [0, 1, 2], "X": [3]}
    assert figure.axes[0].get_ylabel() == "median score"


def test_without_scores_the_shares_are_drawn_and_without_either_nothing(tmp_path: Path) -> None:
    figure = draw_scores([facts(tmp_path / "plain", a_run(scored=False))], LIGHT)
    assert figure is not None
    assert figure.axes[0].get_ylabel() == "share of its average"
    silent = a_run()
    for result in silent.rounds:
        result.devices.clear()
    assert draw_scores([facts(tmp_path / "silent", silent)], LIGHT) is None


def test_equal_partitions_are_drawn_once(tmp_path: Path) -> None:
    other = a_run()
    other.fleet[0]["labels"] = [9, 1]
    runs = [facts(tmp_path / "a"), facts(tmp_path / "b"), facts(tmp_path / "c", other)]
    assert [names for names, _ in partitions(runs)] == ["a, b", "c"]


def test_losses_are_counted_with_the_last_reason(tmp_path: Path) -> None:
    run = a_run()
    run.rounds[0].lost["sim-1"] = "diverged"
    run.rounds[2].lost["sim-1"] = "out of memory"
    by_name = {v.device: v for v in verdicts(facts(tmp_path / "run", run))}
    assert (by_name["sim-1"].lost, by_name["sim-1"].why_lost) == (2, "out of memory")
    assert by_name["sim-0"].lost == 0


def test_a_panel_has_no_more_devices_than_can_be_told_apart(tmp_path: Path) -> None:
    run = a_run(attacker=False)
    names = [f"sim-{n:03}" for n in range(MOST + 5)]
    run.fleet[:] = [{**run.fleet[0], "device": name} for name in names]
    for result in run.rounds:
        result.devices.clear()
        result.devices.update({name: {"weight": 0.1, "score": None, "screened": None} for name in names})
    figure = draw_scores([facts(tmp_path / "run", run)], LIGHT)
    assert figure is not None
    assert figure.axes[0].get_xlabel() == f"{MOST} devices, by prototype"


def test_a_partition_is_drawn_with_a_column_or_row_per_device(tmp_path: Path) -> None:
    figure = draw_partition(facts(tmp_path / "run"), LIGHT)
    said = [text.get_text() for axes in figure.axes for text in (*axes.get_xticklabels(), *axes.get_yticklabels())]
    assert {"0", "1"} <= set(said)
