"""The setup as the worker reads it: through a line of JSON, to the same prototypes, recipe and samples."""

import json
from pathlib import Path

import numpy as np

from aggregator.config.fleet import FleetConfig, load_fleet_config
from aggregator.storage.artifacts import open_artifact
from aggregator.worker.__main__ import Worker
from aggregator.worker.setup import worker_setup
from tests.aggregator.scripted import FLEET, write_fleet
from transport.config import BrokerConfig
from wire.messages import Task


def config_in(folder: Path, **tables: str) -> FleetConfig:
    return load_fleet_config(write_fleet(folder, BrokerConfig(), ["pi-0"], **tables), environ={})


def test_a_worker_builds_what_the_service_means(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    worker = Worker(json.loads(json.dumps(worker_setup(config))))
    assert worker.state == config.state
    assert [worker._spec(name) for name in config.prototypes] == [config.spec(name) for name in config.prototypes]
    assert (worker.setup["fleet"], worker.setup["seed"]) == (FLEET, 3)


def test_labelled_samples_are_named_by_a_path_that_needs_no_folder(tmp_path: Path) -> None:
    assert worker_setup(config_in(tmp_path))["validation"] is None
    np.savez(tmp_path / "test.npz", x=np.zeros((4, 1, 8, 8), np.float32), y=np.array([0, 1, 2, 0]))
    setup = worker_setup(config_in(tmp_path, task='validation = "test.npz"'))
    assert setup["validation"] == str(tmp_path / "test.npz")
    assert Worker(json.loads(json.dumps(setup))).fuser is not None


def test_nothing_of_the_brokers_password_is_in_it(tmp_path: Path) -> None:
    setup = worker_setup(config_in(tmp_path, broker='username = "agg"\npassword = "hunter2"'))
    assert "hunter2" not in json.dumps(setup)


def test_what_fleet_toml_says_of_the_task_is_what_published_models_tell(tmp_path: Path) -> None:
    assert Worker(json.loads(json.dumps(worker_setup(config_in(tmp_path))))).fuser.task is None
    config = config_in(tmp_path, task='class_names = ["a", "b", "c"]\nmean = 127.5\nstd = [64]')
    worker = Worker(json.loads(json.dumps(worker_setup(config))))
    assert worker.fuser.task == Task(class_names=("a", "b", "c"), mean=(127.5,), std=(64.0,))
    answer = worker.answer({"task": "start", "prototypes": list(config.prototypes[:1])})
    header, _ = open_artifact(worker.fuser.blobs.read(answer["models"][0]["digest"]))
    assert header.task == worker.fuser.task


def test_labelled_bytes_are_normalised_as_the_task_says(tmp_path: Path) -> None:
    np.savez(tmp_path / "test.npz", x=np.full((3, 1, 8, 8), 191, np.uint8), y=[0, 1, 2], mean=[9.0], std=[9.0])
    config = config_in(tmp_path, task='validation = "test.npz"\nmean = 127\nstd = 64')
    fuser = Worker(json.loads(json.dumps(worker_setup(config)))).fuser
    assert fuser.validation is not None
    assert fuser.validation[0].unique().tolist() == [1.0]
