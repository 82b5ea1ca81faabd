"""How a run goes on: what may change, and every reason not to."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import ConfigError, DataError
from fleet.results.run_file import WHERE, PrototypeResult, RoundResult, Run, write_run
from fleet.simulation.config import SimulationConfig
from fleet.simulation.resume import MAY_CHANGE, is_resumable, restore, resumed_config
from fleet.virtual.config import VirtualTime

FLEET = [{"device": "sim-0", "prototype": "mlp:fp32", "examples": 5, "labels": [5]}]


def a_round(number: int) -> RoundResult:
    result = PrototypeResult(accuracy=0.5, loss=1.0, train_loss=None, devices=1, bytes_up=3, bytes_down=4)
    return RoundResult(round=number, prototypes={"mlp:fp32": result}, seconds=1.0, lost={"sim-1": "diverged"})


def stored(config: SimulationConfig, folder: Path, rounds: int = 0) -> Run:
    """The run as its folder has it, after so many rounds."""
    run = Run(config=config.to_json(), fleet=FLEET, rounds=[a_round(n + 1) for n in range(rounds)])
    write_run(run, folder)
    return run


@dataclass
class Checkpoint:
    """Restores any simulation to the round `done`."""

    done: int

    def restore(self, simulation: Any) -> int:
        return self.done


@dataclass
class Simulated:
    config: SimulationConfig


def restored(config: SimulationConfig, folder: Path, done: int, fleet: list[dict[str, Any]] = FLEET) -> Any:
    run = Run(config=config.to_json(), fleet=fleet)
    return restore(Simulated(config), run, folder, Checkpoint(done))  # type: ignore[arg-type]


def test_a_run_goes_on_with_its_own_settings_but_for_length_and_place(config: SimulationConfig, tmp_path: Path) -> None:
    config = replace(config, seed=7, source_classes=(1, 2))
    stored(config, tmp_path)
    assert resumed_config(tmp_path, {}) == config
    assert resumed_config(tmp_path, {"rounds": 9, "workers": 3}) == replace(config, rounds=9, workers=3)
    with pytest.raises(AssertionError):
        resumed_config(tmp_path, {"seed": 8})
    assert set(MAY_CHANGE) == {"rounds", *WHERE}, "what decides the models may not"


@pytest.mark.parametrize("changes", [{"transport": "mqtt"}, {"virtual": VirtualTime(boards=("rpi-4",) * 4)}])
def test_runs_without_checkpoints_are_not_resumed(
    config: SimulationConfig, tmp_path: Path, changes: dict[str, Any]
) -> None:
    config = replace(config, **changes)
    assert not is_resumable(config)
    stored(config, tmp_path)
    with pytest.raises(ConfigError, match="over MQTT or in virtual time cannot be resumed; start a new run"):
        resumed_config(tmp_path, {})


def test_a_run_of_an_older_schema_is_not_mixed_with_todays_scores(config: SimulationConfig, tmp_path: Path) -> None:
    stored(config, tmp_path)
    facts = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps({**facts, "schema": 1}))
    with pytest.raises(ConfigError, match="a run of an older edgestill"):
        resumed_config(tmp_path, {})


def test_the_rounds_are_those_of_the_checkpoint_and_one_that_came_after_is_done_again(
    config: SimulationConfig, tmp_path: Path
) -> None:
    stored(config, tmp_path, 2)
    assert restored(config, tmp_path, 2) == [a_round(1), a_round(2)]
    assert restored(config, tmp_path, 1) == [a_round(1)]


@pytest.mark.parametrize(
    ("rounds", "done", "says"),
    [
        (2, 0, "run.json has 2 rounds, but there is no checkpoint to resume from"),
        (1, 2, "a checkpoint of round 2, but run.json has 1 rounds"),
    ],
)
def test_files_that_do_not_fit_each_other_are_told(
    config: SimulationConfig, tmp_path: Path, rounds: int, done: int, says: str
) -> None:
    stored(config, tmp_path, rounds)
    with pytest.raises(DataError, match=says):
        restored(config, tmp_path, done)


def test_another_dataset_and_fewer_rounds_than_there_are_is_refused(config: SimulationConfig, tmp_path: Path) -> None:
    stored(config, tmp_path, 2)
    with pytest.raises(DataError, match="the dataset differs from the one that the run started with"):
        restored(config, tmp_path, 2, [{**FLEET[0], "examples": 6}])
    with pytest.raises(ConfigError, match=r"^--rounds 1: .* has 2 rounds already; give more$"):
        restored(replace(config, rounds=1), tmp_path, 2)
