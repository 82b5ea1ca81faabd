"""Runs as a report reads them: what is checked, what is refused, how runs are called."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import ConfigError, DataError
from fleet.report.facts import read_facts, read_runs
from fleet.report.figures.style import LIGHT
from fleet.report.figures.traffic import draw_bytes
from fleet.report.summary import run_row
from fleet.results.run_file import Run
from tests.fleet.report.made import BIT, CNN, a_run, facts, result, written


def test_a_run_reads_back_as_it_was_written(tmp_path: Path) -> None:
    run = facts(tmp_path / "one")
    assert (run.name, run.prototypes, len(run.rounds), run.attackers) == ("one", [CNN, BIT], 3, {"sim-3": "faulty"})
    assert run.last.prototypes[BIT].accuracy == pytest.approx(0.65)
    assert run.judged[2]["sim-3"].score == 0.046875
    assert run.judged[0]["sim-0"].screened is None


def test_a_loss_that_was_not_finite_comes_back_as_nan(tmp_path: Path) -> None:
    run = a_run((0.5,))
    run.rounds[0].prototypes[CNN] = result(0.5, loss=math.inf, train_loss=None)
    read = facts(tmp_path / "diverged", run).last.prototypes[CNN]
    assert math.isnan(read.loss)
    assert read.train_loss is None


def test_rounds_without_scores_count_for_bytes_and_not_for_accuracy(tmp_path: Path) -> None:
    run = a_run((0.5, math.nan, 0.7, math.nan))
    read = facts(tmp_path / "sparse", run)
    assert [number for number, _ in read.results(CNN)] == [1, 2, 3, 4]
    assert [number for number, _ in read.scored(CNN)] == [1, 3]
    assert read.last.round == 3
    row = run_row(read, 0.6)
    assert (row["accuracy"], row["best"], row["rounds"]) == (pytest.approx(0.575), pytest.approx(0.575), 4)
    assert row["prototypes"][0]["bytes_to_target"] == 12_000_000
    assert [len(line.get_xdata()) for line in draw_bytes([read], LIGHT).axes[0].lines] == [2, 2]


def spoiled(path: Path, *keys: Any, value: Any) -> Path:
    """The file of a run with one thing in it replaced."""
    file = written(path) / "run.json"
    facts = json.loads(file.read_text())
    inner = facts
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    file.write_text(json.dumps(facts))
    return path


@pytest.mark.parametrize(
    ("keys", "value", "says"),
    [
        (("rounds", 0, "prototypes", CNN, "accuracy"), "good", r"\$\.rounds\[0\]"),
        (("rounds", 1, "devices", "sim-1", "score"), "<b>", "score"),
        (("rounds", 1, "prototypes"), 3, "prototypes"),
        (("rounds",), {}, "rounds"),
        (("fleet",), [{"device": 3}], "fleet"),
        (("config",), None, "config"),
        (("rounds", 0, "prototypes", CNN, "accuracy"), 1.5, "accuracy 1.5, expected 0 to 1"),
        (("rounds", 0, "prototypes", CNN, "accuracy"), math.inf, "accuracy inf, expected 0 to 1"),
    ],
)
def test_what_is_no_run_is_refused_in_one_line_with_the_place(
    tmp_path: Path, keys: tuple[Any, ...], value: Any, says: str
) -> None:
    with pytest.raises(DataError, match=says) as caught:
        read_facts(spoiled(tmp_path / "bad", *keys, value=value), "bad")
    assert "\n" not in str(caught.value)
    assert "bad" in str(caught.value)


def test_a_run_without_a_finished_round_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no scored round"):
        facts(tmp_path / "young", Run(config={}, fleet=[], rounds=[]))


def test_a_run_that_lost_every_device_says_so_and_what_to_do(tmp_path: Path) -> None:
    run = a_run((0.5,))
    first = run.rounds[0]
    why = "training diverged: weights are NaN or infinite"
    unscored = {name: replace(p, accuracy=math.nan, devices=0) for name, p in first.prototypes.items()}
    run.rounds[0] = replace(first, prototypes=unscored, devices={}, lost=dict.fromkeys(("sim-0", "sim-1"), why))
    run.config["training"] = {"lr": 50.0, "batch_size": 32, "momentum": 0.9, "clip": 0.0}
    with pytest.raises(DataError, match=rf"2 of 2 devices lost: sim-0, sim-1: {why}; .* --lr is 50, try 0\.03; .*clip"):
        facts(tmp_path / "run", run)
    run = Run(config={}, fleet=run.fleet, rounds=run.rounds)
    with pytest.raises(DataError, match="infinite; run it again"):
        facts(tmp_path / "other", run)


def test_runs_are_called_by_what_tells_them_apart(tmp_path: Path) -> None:
    paths = [written(tmp_path / name) for name in ("a/run", "b/run")]
    assert [run.name for run in read_runs(paths)] == ["a/run", "b/run"]
    assert [run.name for run in read_runs(paths[:1])] == ["run"]
    assert [run.name for run in read_runs([paths[0] / "run.json"])] == ["run"]


def test_a_run_that_is_given_twice_is_told(tmp_path: Path) -> None:
    path = written(tmp_path / "a")
    with pytest.raises(ConfigError, match="given twice"):
        read_runs([path, path / "run.json"])
