"""Runs of a sweep on disk: what is done, what is gone on with, what belongs to somebody else."""

import json
from pathlib import Path

import pytest

from core.errors import ConfigError
from core.processes.python_child import module_arguments
from fleet.results.run_file import Run, write_run
from fleet.sweep.grid import read_sweep
from fleet.sweep.runner import Planned, plan, run_missing
from tests.fleet.report.made import a_run


@pytest.fixture
def run(tmp_path: Path) -> Planned:
    """A run of three rounds, planned."""
    (tmp_path / "sweep.toml").write_text("[simulate]\nrounds = 3\nengine = 'inline'\n[grid]\nseed = [7]")
    (planned,) = plan(read_sweep(tmp_path / "sweep.toml"), tmp_path / "out")
    planned.folder.mkdir(parents=True)
    return planned


def put(run: Planned, rounds: int, **change: object) -> None:
    """Have `rounds` of it been made."""
    config = {**run.config.to_json(), **change}
    write_run(Run(config=config, fleet=[], rounds=a_run((0.5, 0.6, 0.7)).rounds[:rounds]), run.folder)


def test_a_run_is_what_its_grid_says(run: Planned) -> None:
    assert (run.name, run.config.seed, run.config.rounds) == ("seed=7", 7, 3)
    assert run.flags == ("--rounds=3", "--engine=inline", "--seed=7")


def test_variables_hold_for_what_a_sweep_does_not_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they do in the process that makes the run, which is told the sweep's settings as flags."""
    monkeypatch.setenv("EDGESTILL_SIMULATE_ALPHA", "0.25")
    monkeypatch.setenv("EDGESTILL_SIMULATE_SEED", "3")
    (tmp_path / "sweep.toml").write_text("[grid]\nseed = [7]")
    (planned,) = plan(read_sweep(tmp_path / "sweep.toml"), tmp_path / "out")
    assert (planned.config.alpha, planned.config.seed, planned.flags) == (0.25, 7, ("--seed=7",))


def test_a_run_is_done_with_this_configuration_and_all_rounds(run: Planned) -> None:
    assert run.state() == "missing"
    put(run, 2)
    assert run.state() == "unfinished"
    put(run, 3)
    assert run.state() == "done"
    put(run, 3, engine="processes")
    assert run.state() == "done", "where it was made does not matter"
    put(run, 3, alpha=0.5)
    assert run.state() == "other"


def test_a_file_that_cannot_be_read_is_no_run(run: Planned) -> None:
    (run.folder / "run.json").write_text("{")
    assert run.state() == "unfinished"


def test_an_interrupted_run_goes_on_where_there_is_a_checkpoint(run: Planned) -> None:
    put(run, 2)
    anew = module_arguments("edgestill", "simulate", *run.flags, f"--out={run.folder}", "--force")
    assert run.arguments == anew
    (run.folder / "checkpoint").mkdir()
    (run.folder / "checkpoint" / "2.safetensors").write_bytes(b"")
    assert run.arguments == module_arguments("edgestill", "simulate", f"--resume={run.folder}")
    put(run, 3, alpha=0.5)
    assert run.arguments == anew, "a checkpoint of another run is of no use"


def test_what_an_older_edgestill_left_unfinished_is_made_anew(run: Planned) -> None:
    put(run, 2)
    (run.folder / "checkpoint").mkdir()
    (run.folder / "checkpoint" / "2.safetensors").write_bytes(b"")
    path = run.folder / "run.json"
    path.write_text(path.read_text().replace('"schema": 2', '"schema": 1'))
    assert run.arguments == module_arguments("edgestill", "simulate", *run.flags, f"--out={run.folder}", "--force")


def test_another_run_is_not_replaced_unasked(run: Planned) -> None:
    put(run, 3, alpha=0.5)
    before = json.loads((run.folder / "run.json").read_text())
    with pytest.raises(ConfigError, match="holds a run with other settings, one of 1; give another --out, or --force"):
        run_missing([run], jobs=1, show=lambda _: None)
    assert json.loads((run.folder / "run.json").read_text()) == before


def test_what_is_done_is_not_made_again(run: Planned) -> None:
    put(run, 3)
    assert run_missing([run], jobs=1, show=lambda _: None) == {}
    assert not run.log.exists()
