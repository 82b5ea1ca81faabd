"""A run of an MLflow server or database, by MLflow's own client.

A continued run is the same run of MLflow. The client repeats a request once and waits at most ten seconds, unless
MLFLOW_HTTP_REQUEST_MAX_RETRIES and MLFLOW_HTTP_REQUEST_TIMEOUT say otherwise: the follower tries again anyway.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

for _name, _value in {
    "MLFLOW_DISABLE_TELEMETRY": "true",  # by default it reports its use to its makers
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "GIT_PYTHON_REFRESH": "quiet",  # of GitPython, on a machine without git
}.items():
    os.environ.setdefault(_name, _value)  # before the import, which reads some of them

from mlflow import MlflowClient  # noqa: E402
from mlflow.entities import Metric, Param, RunStatus  # noqa: E402
from mlflow.exceptions import MlflowException  # noqa: E402

from aggregator.tracking.records import RoundRecord, TrackedRun, flat  # noqa: E402

__all__ = ["MLflow", "open_mlflow"]

logging.getLogger("mlflow").setLevel(logging.WARNING)  # it tells of every table that it makes

EXPERIMENT = "edgestill"
MOST_PARAMS = 100  # of one request
LONGEST = 6000  # characters of a parameter
MOST_METRICS = 1000  # of one request


def open_mlflow(where: str, run: TrackedRun, token: str | None) -> MLflow:
    """A new run of the experiment, or the one whose id is `token`."""
    client = MlflowClient(tracking_uri=where)
    params = {key: str(value)[:LONGEST] for key, value in flat(run.settings).items()}
    if token is not None:
        client.update_run(token, status="RUNNING")
        return MLflow(client, token, params)
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
    made = client.create_run(_experiment(client, name), run_name=run.name)
    return MLflow(client, made.info.run_id, params)


def _experiment(client: MlflowClient, name: str) -> str:
    """The id of the experiment, which may be made by another run at the same moment."""
    if (found := client.get_experiment_by_name(name)) is not None:
        return str(found.experiment_id)
    try:
        return str(client.create_experiment(name))
    except MlflowException:
        if (found := client.get_experiment_by_name(name)) is None:
            raise
        return str(found.experiment_id)


class MLflow:
    """One run."""

    def __init__(self, client: MlflowClient, run: str, params: Mapping[str, str]) -> None:
        self.token, self._client = run, client
        self._params: Mapping[str, str] | None = params  # not yet sent

    def log(self, record: RoundRecord) -> None:
        """The figures of the round, with its number as the step; before the first, the settings."""
        if self._params is not None:
            self._send(self._params)
            self._params = None
        when = int(record.time * 1000)
        metrics = [Metric(name, value, when, record.round) for name, value in record.metrics.items()]
        for start in range(0, len(metrics), MOST_METRICS):
            self._client.log_batch(self.token, metrics=metrics[start : start + MOST_METRICS])

    def _send(self, params: Mapping[str, str]) -> None:
        """Those that the run does not have yet: MLflow lets none be changed."""
        there = self._client.get_run(self.token).data.params
        missing = [Param(key, value) for key, value in params.items() if key not in there]
        for start in range(0, len(missing), MOST_PARAMS):
            self._client.log_batch(self.token, params=missing[start : start + MOST_PARAMS])

    def close(self, *, complete: bool) -> None:
        """The run has ended, or was interrupted."""
        status = RunStatus.FINISHED if complete else RunStatus.KILLED
        self._client.set_terminated(self.token, RunStatus.to_string(status))
