"""The numbers of a report, worked by hand."""

from pathlib import Path

import pytest

from fleet.report.summary import (
    Reached,
    attackers_share,
    default_target,
    ensemble,
    mean_quality,
    prototype_rows,
    reached,
    run_row,
    time_split,
)
from tests.fleet.report.made import BIT, CNN, a_run, facts, result


def test_devices_that_keep_their_models_are_judged_by_those() -> None:
    assert result(0.5).quality == 0.5
    assert result(0.5, device_accuracy=0.75).quality == 0.75


def test_means_are_over_prototypes_and_the_ensemble_is_the_recipe_s(tmp_path: Path) -> None:
    run = facts(tmp_path / "run")
    assert mean_quality(run.last) == pytest.approx((0.9 + 0.65) / 2)
    assert ensemble(run.last) == 0.95
    assert ensemble(facts(tmp_path / "plain", a_run(scored=False)).last) is None


def test_the_first_round_at_the_target_counts_with_all_bytes_until_then(tmp_path: Path) -> None:
    run = facts(tmp_path / "run", a_run((0.5, 0.75, 0.6, 0.9)))
    assert reached(run, CNN, 0.75) == Reached(2, 8_000_000)
    assert reached(run, BIT, 0.5) == Reached(2, 2 * 3_010_000)
    assert reached(run, BIT, 0.75) is None


def test_the_target_is_a_multiple_of_five_percent_that_half_of_the_prototypes_reach(tmp_path: Path) -> None:
    one = facts(tmp_path / "one", a_run((0.93,)))  # 0.93 and 0.68
    other = facts(tmp_path / "other", a_run((0.41,)))  # 0.41 and 0.16
    assert default_target([one]) == 0.9
    assert default_target([one, other]) == 0.7  # 0.65, were it not near guessing among two classes


def test_the_target_is_never_what_guessing_reaches_or_nearly(tmp_path: Path) -> None:
    bad = a_run((0.3,))  # 0.3 and 0.05; labels 5+5, 5+6, 5+7, 5+8: guessing has 26 of 46
    assert default_target([facts(tmp_path / "bad", bad)]) == 0.7, "0.565 + 0.1, rounded up"
    even = a_run((0.3,))
    even.fleet = [{**device, "labels": [3] * 10} for device in even.fleet]
    assert default_target([facts(tmp_path / "even", even)]) == 0.3
    none = a_run((0.3,))
    none.fleet = even.fleet
    none.rounds[0].prototypes[CNN] = result(0.1)
    assert default_target([facts(tmp_path / "none", none)]) == 0.2


def test_devices_are_those_that_answered_as_the_terminal_says(tmp_path: Path) -> None:
    run = a_run((0.5,))
    run.rounds[0].prototypes[CNN] = result(0.1, devices=0)
    full, _ = prototype_rows(facts(tmp_path / "run", run), 0.5)
    assert full["devices"] == 0


def test_time_is_grouped_and_what_is_left_is_the_rest(tmp_path: Path) -> None:
    split = time_split(facts(tmp_path / "run").rounds)
    assert split == {"train": 12.0, "encode": 3.0, "average": 1.5, "distill": 6.0, "rest": 7.5}


def test_work_on_many_workers_leaves_no_negative_rest_and_unknown_stages_are_rest(tmp_path: Path) -> None:
    run = a_run((0.5,))
    run.rounds[0].seconds_by.update({"train": 40.0, "think": 2.0})
    assert time_split(facts(tmp_path / "run", run).rounds)["rest"] == 2.0


def test_attackers_share_is_that_of_the_averages(tmp_path: Path) -> None:
    run = a_run()
    run.rounds[-1].devices["sim-3"]["weight"] = 0.3
    assert attackers_share(facts(tmp_path / "run", run)) == pytest.approx(0.15)  # one attacker, two averages
    assert attackers_share(facts(tmp_path / "good", a_run(attacker=False))) is None


def test_rows_hold_what_the_report_shows(tmp_path: Path) -> None:
    run = facts(tmp_path / "run")
    full, bit = prototype_rows(run, 0.6)
    assert (full["accuracy"], full["best"], full["devices"], full["update_bytes"]) == (0.9, 0.9, 2, 500_000)
    assert (full["rounds_to_target"], bit["rounds_to_target"], bit["bytes_to_target"]) == (2, 3, 9_030_000)
    assert (bit["accuracy"], bit["accuracy_float"]) == pytest.approx((0.65, 0.775))
    row = run_row(run, 0.6)
    assert (row["rounds"], row["seconds"], row["attackers"], row["bytes_down"]) == (3, 30.0, 1, 18_000_000)
