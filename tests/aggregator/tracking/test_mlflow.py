"""Runs of MLflow, read by MLflow's own client from a database, and written to a server."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from aggregator.tracking import mlflow as ours
from aggregator.tracking.mlflow import MLflow, open_mlflow
from aggregator.tracking.records import RoundRecord, TrackedRun

RUN = TrackedRun(name="greenhouse", settings={"recipe": "feddf", "names": ["cnn:w1"], "long": "x" * 7000})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database; MLflow takes seconds to make one."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/mlflow.db"


def log(tracker: MLflow, *rounds: int) -> None:
    for number in rounds:
        metrics = {"accuracy/cnn.w1": number / 8, "bytes/up": 100.0 * number}
        tracker.log(RoundRecord(round=number, time=1000.0 + number, metrics=metrics))


def history(store: str, run: str) -> list[tuple[int, int, float]]:
    found = ours.MlflowClient(tracking_uri=store).get_metric_history(run, "accuracy/cnn.w1")
    return [(metric.step, metric.timestamp, metric.value) for metric in found]


def test_a_run_has_name_settings_rounds_and_end(store: str) -> None:
    tracker = open_mlflow(store, RUN, None)
    log(tracker, 1, 2)
    client = ours.MlflowClient(tracking_uri=store)
    run = client.get_run(tracker.token)
    assert run.info.run_name == "greenhouse"
    assert run.info.status == "RUNNING"
    assert client.get_experiment(run.info.experiment_id).name == "edgestill"
    assert run.data.params == {"recipe": "feddf", "names": "cnn:w1", "long": "x" * 6000}
    assert run.data.metrics == {"accuracy/cnn.w1": 0.25, "bytes/up": 200.0}
    assert history(store, tracker.token) == [(1, 1001000, 0.125), (2, 1002000, 0.25)]
    tracker.close(complete=True)
    assert client.get_run(tracker.token).info.status == "FINISHED"


def test_a_continued_run_is_the_same_run_even_if_settings_have_changed(store: str) -> None:
    first = open_mlflow(store, RUN, None)
    log(first, 1)
    first.close(complete=False)
    client = ours.MlflowClient(tracking_uri=store)
    assert client.get_run(first.token).info.status == "KILLED"
    second = open_mlflow(store, TrackedRun(name="greenhouse", settings={"recipe": "other", "rounds": 9}), first.token)
    log(second, 1, 2)  # a round that was written already, but not noted
    assert second.token == first.token
    run = client.get_run(first.token)
    assert (run.info.status, run.data.params["recipe"], run.data.params["rounds"]) == ("RUNNING", "feddf", "9")
    assert history(store, first.token) == [(1, 1001000, 0.125), (2, 1002000, 0.25)]


def test_the_experiment_may_be_another(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "boards")
    tracker = open_mlflow(store, RUN, None)
    client = ours.MlflowClient(tracking_uri=store)
    assert client.get_experiment(client.get_run(tracker.token).info.experiment_id).name == "boards"


def test_an_experiment_made_by_another_run_meanwhile_is_used(store: str) -> None:
    class Late:
        """Finds it the second time only."""

        def __init__(self) -> None:
            self.client: Any = ours.MlflowClient(tracking_uri=store)
            self.answers: list[Any] = [None]

        def get_experiment_by_name(self, name: str) -> Any:
            return self.answers.pop() if self.answers else self.client.get_experiment_by_name(name)

        def create_experiment(self, name: str) -> Any:
            return self.client.create_experiment(name)

    wanted = ours._experiment(ours.MlflowClient(tracking_uri=store), "both")
    assert ours._experiment(Late(), "both") == wanted  # type: ignore[arg-type]


def test_a_server_that_is_away_is_an_error_soon() -> None:
    with pytest.raises(ours.MlflowException, match=r"127\.0\.0\.1"):
        open_mlflow("http://127.0.0.1:9", RUN, None)


def test_the_client_reports_nothing_to_its_makers() -> None:
    from mlflow.telemetry.utils import is_telemetry_disabled

    assert is_telemetry_disabled()
    assert logging.getLogger("mlflow").level == logging.WARNING
