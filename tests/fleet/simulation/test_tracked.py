"""Runs with trackers: TensorBoard and MLflow read what was run, sweeps and resumed runs included."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from core.errors import ConfigError
from fleet.results.run_file import PrototypeResult, RoundResult
from fleet.simulation.config import SimulationConfig
from fleet.simulation.observer import Observer
from fleet.simulation.resume import resumed_config
from fleet.simulation.run import check_run, run_simulation
from fleet.simulation.settings.configure import configure
from fleet.simulation.settings.table import from_environment, read_file
from fleet.simulation.tracked import record_of
from fleet.sweep.run import open_sweep, run_sweep
from fleet.sweep.settings import flags_of


class Warned(Observer):
    """Keeps the warnings about trackers."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def warn(self, text: str) -> None:
        self.said += [text] if text.startswith("tracker") else []


def scalars(folder: Path, tag: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in EventAccumulator(str(folder)).Reload().Scalars(tag)]


def test_a_round_has_its_figures() -> None:
    cnn = PrototypeResult(
        accuracy=0.5, loss=1.0, train_loss=None, devices=2, bytes_up=3, bytes_down=4, accuracy_float=0.75, own_worst=0.0
    )
    roles = {"a": {"weight": 1.0, "screened": None}, "b": {"screened": "far away"}}
    result = RoundResult(
        round=7, prototypes={"cnn:w1": cnn}, seconds=2.0, seconds_by={"train": 1.5}, lost={"c": "gone"}, devices=roles
    )
    record = record_of(result)
    assert record.round == 7
    assert record.metrics == {
        "accuracy/cnn.w1": 0.5,
        "accuracy_float/cnn.w1": 0.75,
        "loss/cnn.w1": 1.0,
        "own_worst/cnn.w1": 0.0,
        "devices/cnn.w1": 2.0,
        "bytes_up/cnn.w1": 3.0,
        "bytes_down/cnn.w1": 4.0,
        "devices/asked": 3.0,
        "devices/lost": 1.0,
        "devices/excluded": 1.0,
        "bytes/up": 3.0,
        "bytes/down": 4.0,
        "seconds/round": 2.0,
        "seconds/train": 1.5,
    }


def test_both_trackers_read_what_was_run_and_a_resumed_run_is_the_same_one(
    config: SimulationConfig, tmp_path: Path
) -> None:
    database = f"sqlite:///{tmp_path}/mlflow.db"
    MlflowClient(tracking_uri=database).search_experiments()  # makes the tables, which takes long
    config = replace(config, update="state", track=(f"tensorboard:{tmp_path}/tb", f"mlflow:{database}"))
    observer = Warned()
    run_simulation(config, tmp_path / "first", observer=observer)
    resumed = resumed_config(tmp_path / "first", {"rounds": 4})
    run = run_simulation(resumed, tmp_path / "first", resume=True, observer=observer)
    assert observer.said == []
    accuracy = [(result.round, result.prototypes["mlp:fp32"].accuracy) for result in run.rounds]
    assert dict(scalars(tmp_path / "tb/first", "accuracy/mlp.fp32")) == pytest.approx(dict(accuracy))
    assert [path.name for path in (tmp_path / "tb").iterdir()] == ["first"]
    client = MlflowClient(tracking_uri=database)
    (tracked,) = client.search_runs([client.get_experiment_by_name("edgestill").experiment_id])
    assert tracked.info.run_name == "first"
    assert tracked.info.status == "FINISHED"
    assert tracked.data.params["training.lr"] == "0.1"
    assert "track" not in tracked.data.params
    history = client.get_metric_history(tracked.info.run_id, "accuracy/mlp.fp32")
    assert [(metric.step, metric.value) for metric in history] == accuracy


def test_a_run_that_is_begun_anew_is_another_run_of_its_tracker(config: SimulationConfig, tmp_path: Path) -> None:
    config = replace(config, track=(f"tensorboard:{tmp_path}/tb",))
    for _ in range(2):
        run_simulation(config, tmp_path / "out", force=True)
    assert sorted(path.name for path in (tmp_path / "tb").iterdir()) == ["out", "out-2"]
    run_simulation(config)
    (unnamed,) = (path.name for path in (tmp_path / "tb").iterdir() if not path.name.startswith("out"))
    assert unnamed.startswith("edgestill-")


def test_trackers_change_no_bit_and_belong_to_no_configuration(config: SimulationConfig, tmp_path: Path) -> None:
    plain = run_simulation(config, tmp_path / "run")
    tracked = run_simulation(replace(config, track=(f"tensorboard:{tmp_path}/tb",)), tmp_path / "run")  # no --force
    for one, other in zip(plain.rounds, tracked.rounds, strict=True):
        assert one.prototypes == other.prototypes
    assert json.loads((tmp_path / "run/run.json").read_text())["config"]["track"] == [f"tensorboard:{tmp_path}/tb"]


def test_a_tracker_that_fails_is_one_warning_and_the_run_is_whole(config: SimulationConfig, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    observer = Warned()
    run = run_simulation(replace(config, track=(f"tensorboard:{tmp_path}/file",)), observer=observer)
    assert len(run.rounds) == 2
    (warning,) = observer.said
    assert warning.startswith(
        f"tracker tensorboard:{tmp_path}/file: round 1 is not written yet, and will be tried again"
    )


def test_a_missing_package_is_said_before_anything_is_made(
    config: SimulationConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aggregator.tracking.targets.find_spec", lambda name: None)
    config = replace(config, track=("mlflow:http://127.0.0.1:9",))
    with pytest.raises(ConfigError, match=r"pip install 'edgestill\[mlflow\]'$"):
        run_simulation(config, tmp_path / "out")
    with pytest.raises(ConfigError, match=r"pip install 'edgestill\[mlflow\]'$"):
        check_run(config)
    assert not (tmp_path / "out").exists()


def test_trackers_are_settings_of_files_variables_and_flags(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('[simulate]\ntrack = ["tensorboard:a", "mlflow:http://h"]\n')
    assert configure(read_file(file).values).track == ("tensorboard:a", "mlflow:http://h")
    variable = from_environment({"EDGESTILL_SIMULATE_TRACK": "tensorboard:a, mlflow:http://h"})
    assert configure(variable.values).track == ("tensorboard:a", "mlflow:http://h")
    assert flags_of({"track": ("tensorboard:a", "mlflow:b")}) == ["--track=tensorboard:a", "--track=mlflow:b"]
    file.write_text('[simulate]\ntrack = "tensorboard:a"\n')
    with pytest.raises(ConfigError, match="'track' is 'tensorboard:a', expected a list of strings"):
        read_file(file)


@pytest.mark.slow
def test_every_run_of_a_sweep_is_a_run(tmp_path: Path) -> None:
    """Slow: two processes that import torch."""
    file = tmp_path / "sweep.toml"
    file.write_text(
        f'[simulate]\ndevices = 2\nprototypes = "mlp:fp32"\nrounds = 1\nlocal-steps = 1\n'
        f'track = ["tensorboard:{tmp_path}/tb"]\n[grid]\nseed = [0, 1]\n'
    )
    ended = run_sweep(open_sweep(file, tmp_path / "sweep"), jobs=2, show=lambda progress: None)
    assert not ended.failed
    assert sorted(path.name for path in (tmp_path / "tb").iterdir()) == ["seed=0", "seed=1"]
    assert all(len(scalars(tmp_path / f"tb/seed={seed}", "bytes/up")) == 1 for seed in (0, 1))
