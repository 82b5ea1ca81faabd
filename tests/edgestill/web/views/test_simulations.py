"""Runs in a folder: read once, newest first, side by side."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from edgestill.web.views import simulations


def a_run(folder: Path, name: str, accuracies: list[float], time: int) -> None:
    def result(accuracy: float) -> dict[str, Any]:
        return {"devices": 2, "bytes_up": 100, "bytes_down": 50, "accuracy": accuracy, "loss": 1.0}

    rounds = [
        {"round": i + 1, "seconds": 2.0, "devices": {}, "seconds_by": {}, "prototypes": {"cnn:w1": result(accuracy)}}
        for i, accuracy in enumerate(accuracies)
    ]
    fleet = [{"device": "a", "prototype": "cnn:w1"}, {"device": "b", "prototype": "cnn:w1"}]
    config = {"recipe": {"name": "fedavg"}, "dataset": "digits"}
    (folder / name).mkdir(parents=True)
    path = folder / name / "run.json"
    path.write_text(json.dumps({"schema": simulations_schema(), "config": config, "fleet": fleet, "rounds": rounds}))
    os.utime(path, (time, time))


def simulations_schema() -> Any:
    from fleet.results import run_file

    return run_file.SCHEMA


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    a_run(tmp_path, "first", [0.25, 0.5], 1000)
    a_run(tmp_path, "sweep/lr", [0.5, 0.75, 1.0], 2000)
    a_run(tmp_path, "third", [0.125], 3000)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    os.utime(tmp_path / "broken" / "run.json", (500, 500))
    return tmp_path


def test_runs_come_newest_first_and_a_broken_one_with_its_reason(folder: Path) -> None:
    found = simulations.runs(folder)
    assert [(row["run"], row["rounds"], row["accuracy"], row["bytes_up"]) for row in found["rows"]] == [
        ("third", 1, 0.125, 100),
        ("sweep/lr", 3, 1.0, 300),
        ("first", 2, 0.5, 200),
    ]
    row = found["rows"][0]
    assert (row["recipe"], row["dataset"], row["devices"]) == ("fedavg", "digits", 2)
    assert list(found["broken"]) == ["broken"]
    assert "run.json" in found["broken"]["broken"]


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        ([], ["third", "sweep/lr"]),
        (["first", "first", "../../etc", "sweep/lr"], ["first", "sweep/lr"]),
        (["nothing"], ["third", "sweep/lr"]),
    ],
)
def test_only_runs_of_the_folder_can_be_chosen(folder: Path, asked: list[str], chosen: list[str]) -> None:
    assert simulations.chosen_runs(folder, asked) == chosen


def test_charts_have_the_rounds_of_the_longest(folder: Path) -> None:
    assert simulations.run_charts(folder, ["first", "sweep/lr"]) == {
        "rounds": [1, 2, 3],
        "accuracy": {"first": [0.25, 0.5, None], "sweep/lr": [0.5, 0.75, 1.0]},
        "bytes": {"first": [100.0, 100.0, None], "sweep/lr": [100.0, 100.0, 100.0]},
    }


def test_a_run_is_read_again_only_when_it_has_changed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulations.runs(folder)
    read: list[Path] = []
    once = simulations.read_facts
    monkeypatch.setattr(simulations, "read_facts", lambda path, name: read.append(path) or once(path, name))
    simulations.runs(folder)
    assert read == [folder / "broken"]
    (folder / "third" / "run.json").unlink()
    (folder / "third").rmdir()
    a_run(folder, "third", [0.5], 4000)
    assert simulations.runs(folder)["rows"][0]["accuracy"] == 0.5
    assert folder / "third" in read


def test_an_empty_folder_has_no_runs(tmp_path: Path) -> None:
    assert simulations.runs(tmp_path) == {"rows": [], "broken": {}, "target": 0.0}
    assert simulations.run_charts(tmp_path, []) == {"rounds": [], "accuracy": {}, "bytes": {}}
