"""Event files, read by TensorBoard's own reader."""

from __future__ import annotations

from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

from aggregator.tracking.records import RoundRecord, TrackedRun
from aggregator.tracking.tensorboard import TensorBoard, open_tensorboard

RUN = TrackedRun(name="run", settings={"recipe": "feddf", "training": {"lr": 0.5}, "amp": False})


def log(tracker: TensorBoard, *rounds: int, shift: float = 0.0) -> None:
    for number in rounds:
        tracker.log(RoundRecord(round=number, time=1000.0 + number, metrics={"accuracy/cnn.w1": number / 8 + shift}))


def read(folder: Path) -> EventAccumulator:
    return EventAccumulator(str(folder)).Reload()


def scalars(folder: Path, tag: str = "accuracy/cnn.w1") -> list[tuple[int, float, float]]:
    return [(event.step, event.wall_time, event.value) for event in read(folder).Scalars(tag)]


def test_rounds_are_scalars_and_settings_hyperparameters(tmp_path: Path) -> None:
    tracker = open_tensorboard(str(tmp_path / "runs"), RUN, None)
    log(tracker, 1, 2)
    assert scalars(tmp_path / "runs/run") == [(1, 1001.0, 0.125), (2, 1002.0, 0.25)], "readable before it is closed"
    tracker.close(complete=True)
    plugin = read(tmp_path / "runs/run").SummaryMetadata("_hparams_/session_start_info").plugin_data
    started = plugin_data_pb2.HParamsPluginData.FromString(plugin.content).session_start_info.hparams
    assert started["recipe"].string_value == "feddf"
    assert started["training.lr"].number_value == 0.5
    assert started["amp"].bool_value is False


def test_a_continued_run_is_one_run_and_its_repeated_rounds_are_void(tmp_path: Path) -> None:
    first = open_tensorboard(str(tmp_path), RUN, None)
    log(first, 1, 2, 3)
    first.close(complete=False)
    second = open_tensorboard("elsewhere", RUN, first.token)
    log(second, 3, 4, shift=1.0)
    second.close(complete=True)
    assert scalars(tmp_path / "run") == [(1, 1001.0, 0.125), (2, 1002.0, 0.25), (3, 1003.0, 1.375), (4, 1004.0, 1.5)]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_cut_event_costs_itself_alone(tmp_path: Path) -> None:
    first = open_tensorboard(str(tmp_path), RUN, None)
    log(first, 1, 2)
    first.close(complete=False)
    (file,) = (tmp_path / "run").iterdir()
    file.write_bytes(file.read_bytes()[:-7])
    second = open_tensorboard(str(tmp_path), RUN, first.token)
    log(second, 2)
    second.close(complete=True)
    assert [step for step, *_ in scalars(tmp_path / "run")] == [1, 2]


def test_another_run_of_the_name_keeps_its_folder(tmp_path: Path) -> None:
    for shift in (0.0, 1.0, 2.0):
        tracker = open_tensorboard(str(tmp_path), RUN, None)
        log(tracker, 1, shift=shift)
        tracker.close(complete=True)
    assert [scalars(tmp_path / name)[0][2] for name in ("run", "run-2", "run-3")] == [0.125, 1.125, 2.125]


def test_a_full_disk_is_an_error_at_once(tmp_path: Path) -> None:
    tracker = open_tensorboard(str(tmp_path), RUN, None)
    tracker._records._writer = open("/dev/full", "wb")  # noqa: SIM115
    with pytest.raises(OSError, match="No space left"):
        log(tracker, 1)
