"""A run from start to end, as a program calls it: its files, who is told, and how it goes on."""

from __future__ import annotations

import json
import multiprocessing
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.errors import ConfigError, DataError
from edge_agent.training.params import LocalTraining
from fleet.results.run_file import RoundResult, Run
from fleet.simulation.config import SimulationConfig
from fleet.simulation.observer import Observer
from fleet.simulation.resume import is_resumable, resumed_config
from fleet.simulation.run import Interrupted, LostRunError, check_run, run_simulation
from fleet.virtual.config import VirtualTime


class Told(Observer):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.devices: list[str] = []
        self.rounds: list[int] = []
        self.warnings: list[str] = []

    def watch(self, run: Run, *, per_round: int, at_once: int) -> nullcontext[None]:
        self.began = (len(run.rounds), len(run.fleet), per_round, at_once)
        return nullcontext()

    def device_done(self, device: str) -> None:
        self.devices.append(device)

    def round_done(self, result: RoundResult) -> None:
        self.rounds.append(result.round)

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def facts(folder: Path) -> dict[str, Any]:
    """run.json without what may differ."""
    run: dict[str, Any] = json.loads((folder / "run.json").read_text())
    run["config"].pop("rounds")
    for told in run["rounds"]:
        told.pop("seconds"), told.pop("seconds_by")
    return run


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"compute": "cuda:99"}, "cuda:99"),
        ({"recipe": "feddf", "update": "state", "source": "absent.npz"}, "absent.npz"),
        ({"recipe": "feddf", "update": "state", "source": "nope"}, "--source 'nope'"),
        ({"recipe": "feddf", "update": "state", "source": "none"}, "needs unlabeled samples"),
        ({"options": {"nope": 1}}, "unknown option 'nope'"),
        ({"devices": 1200}, "samples"),
    ],
)
def test_a_check_refuses_what_the_run_would_refuse(
    config: SimulationConfig, changes: dict[str, Any], words: str
) -> None:
    refusals = []
    for start in (check_run, run_simulation):
        with pytest.raises((ConfigError, DataError)) as refused:
            start(replace(config, **changes))
        refusals.append(str(refused.value))
    assert refusals[0] == refusals[1]
    assert words in refusals[0]


def test_a_check_looks_for_ray(config: SimulationConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match="needs Ray"):
        check_run(replace(config, engine="ray"))


def test_a_check_trains_nothing_and_starts_no_process(config: SimulationConfig) -> None:
    before = multiprocessing.active_children()
    check_run(replace(config, engine="processes", workers=2))
    assert multiprocessing.active_children() == before


def test_a_run_without_a_folder_is_a_value(config: SimulationConfig, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    told = Told()
    run = run_simulation(config, observer=told)
    assert [result.round for result in run.rounds] == told.rounds == [1, 2]
    assert (told.began, len(told.devices)) == ((0, 4, 4, 1), 8)
    few, warning = told.warnings  # two rounds of a few steps come to nothing yet
    assert run.rounds[0].warnings == [few]
    assert "the default would be 50" in few
    assert warning.endswith("little better than guessing; try more --rounds, or more --local-epochs")
    assert run.config == config.to_json()
    assert sorted(tmp_path.iterdir()) == before


def test_a_folder_gets_the_files_of_a_run(config: SimulationConfig, tmp_path: Path) -> None:
    run_simulation(config, tmp_path / "run")
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"run.json", "curves.png", "checkpoint"}
    with pytest.raises(ConfigError, match="holds a run with another configuration"):
        run_simulation(replace(config, seed=1), tmp_path / "run")
    again = run_simulation(replace(config, seed=1, rounds=1), tmp_path / "run", force=True)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["config"]["seed"] == 1
    assert len(again.rounds) == 1


def test_a_resumed_run_ends_as_the_whole_one(config: SimulationConfig, tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    run_simulation(replace(config, rounds=3), whole)
    run_simulation(replace(config, rounds=1), cut)
    told = Told()
    run = run_simulation(resumed_config(cut, {"rounds": 3}), cut, resume=True, observer=told)
    assert (told.began[0], told.rounds, len(run.rounds)) == (1, [2, 3], 3)
    assert facts(cut) == facts(whole)
    with pytest.raises(ConfigError, match="has 3 rounds already; give more"):
        run_simulation(resumed_config(cut, {"rounds": 2}), cut, resume=True)
    np.savez(tmp_path / "mine.npz", x=np.zeros((90, 6), np.float32), y=np.arange(90) % 3)
    with pytest.raises(DataError, match="the dataset differs from the one that the run started with"):
        run_simulation(resumed_config(cut, {"rounds": 4}), cut, resume=True)


def test_ctrl_c_leaves_what_there_is(config: SimulationConfig, tmp_path: Path) -> None:
    class Stopped(Told):
        def device_done(self, device: str) -> None:
            if self.rounds == [1]:
                raise KeyboardInterrupt

    with pytest.raises(Interrupted) as cut:
        run_simulation(config, tmp_path / "run", observer=Stopped())
    assert [result.round for result in cut.value.run.rounds] == [1]
    assert len(facts(tmp_path / "run")["rounds"]) == 1
    assert (tmp_path / "run" / "curves.png").exists()
    resumed = run_simulation(resumed_config(tmp_path / "run", {}), tmp_path / "run", resume=True)
    assert len(resumed.rounds) == 2


def test_a_run_whose_devices_are_lost_ends_after_its_files(config: SimulationConfig, tmp_path: Path) -> None:
    wild = replace(config, training=LocalTraining(lr=1000.0, batch_size=8, steps=60))
    with pytest.raises(LostRunError, match=r"round 1: 4 of 4 devices lost: .* training diverged: .* --lr is 1000") as e:
        run_simulation(wild, tmp_path / "run")
    (only,) = facts(tmp_path / "run")["rounds"]
    assert only["lost"].keys() == {f"sim-{n}" for n in range(4)} == e.value.run.rounds[0].lost.keys()
    assert (tmp_path / "run" / "checkpoint" / "1.safetensors").exists()


def test_what_is_not_resumable_has_no_checkpoint(config: SimulationConfig, tmp_path: Path) -> None:
    virtual = replace(config, rounds=1, virtual=VirtualTime(boards=("rpi-4",) * 4))
    assert not is_resumable(virtual)
    run_simulation(virtual, tmp_path / "run")
    assert not (tmp_path / "run" / "checkpoint").exists()
    with pytest.raises(ConfigError, match="in virtual time cannot be resumed"):
        resumed_config(tmp_path / "run", {"rounds": 2})
