"""A sweep from its file to its tables, as a program calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.errors import ConfigError
from fleet.results.run_file import Run, write_run
from fleet.sweep.grid import read_sweep
from fleet.sweep.run import Runs, open_sweep, run_sweep
from tests.fleet.report.made import a_run

SWEEP = "[simulate]\nrounds = 1\n[grid]\nseed = [0, 1]"


def opened(folder: Path, text: str = SWEEP) -> Runs:
    (folder / "sweep.toml").write_text(text)
    return open_sweep(read_sweep(folder / "sweep.toml"), folder / "out")


def test_runs_side_by_side_are_inline_unless_the_sweep_says_otherwise(tmp_path: Path) -> None:
    assert {run.config.engine for run in opened(tmp_path).planned} == {"inline"}
    said = opened(tmp_path, f'{SWEEP}\nengine = ["processes"]')
    assert {run.config.engine for run in said.planned} == {"processes"}
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('dataset = "digit"', "unknown dataset 'digit'.*did you mean 'digits'"),
        ('partition = "idd"', "unknown partition 'idd'.*did you mean 'iid'"),
    ],
)
def test_data_that_is_not_there_is_missed_before_anything_runs(tmp_path: Path, line: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        opened(tmp_path, SWEEP.replace("rounds = 1", line))


def test_tables_have_what_is_done_and_name_what_failed(tmp_path: Path) -> None:
    runs = opened(tmp_path)
    first, second = runs.planned
    first.folder.mkdir(parents=True)
    write_run(Run(config=first.config.to_json(), fleet=[], rounds=a_run((0.5,)).rounds), first.folder)
    second.folder.write_text("in the way")
    assert runs.missing == [second]
    ended = run_sweep(runs, jobs=1, show=lambda _: None)
    assert ended.failed.startswith("1 of 1 runs failed; seed=1: edgestill: ")
    assert ended.failed.endswith(f"({second.log})")
    assert json.loads((tmp_path / "out" / "sweep.json").read_text()) == json.loads(json.dumps(ended.facts))
    assert ([run["run"] for run in ended.facts["runs"]], ended.facts["missing"]) == (["seed=0"], ["seed=1"])
    assert [row.seeds for row in ended.rows] == [(0,)]
    assert (tmp_path / "out" / "runs.csv").read_text().startswith("run,seed,accuracy")


def test_tables_are_written_where_a_sweep_was_cut(tmp_path: Path) -> None:
    def cut(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep(opened(tmp_path), jobs=1, show=cut)
    assert json.loads((tmp_path / "out" / "sweep.json").read_text())["missing"] == ["seed=0", "seed=1"]
