"""Fusion's parallel work as tasks on a Ray cluster: teachers' forward passes, and students.

A task gets the files of its request as bytes and returns those that it has written, so the machines share no disk.
They need edgestill too, of the same version. Ray repeats the tasks of a lost machine on another one; the same request
gives the same bits, so that costs time alone. If the cluster itself is lost, `ClusterError` says so.

The simulated fleet's engine (`fleet/engines/ray_cluster.py`) uses actors instead, which keep devices and samples.
"""

from __future__ import annotations

import importlib
import os
import socket
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import torch

from aggregator.fusion.process_pool import call
from core.errors import ConfigError, EdgestillError, RoundError

__all__ = ["ClusterError", "RayTasks", "answer_with_files", "connect", "files_of", "find_ray", "write_files"]

Buffer: TypeAlias = "bytes | bytearray | memoryview"
ROOT = Path(__file__).resolve().parents[2]
ANSWER_S = 5.0  # for the address to accept a connection
RETRIES = 5  # of a task whose machine is lost


class ClusterError(RoundError):
    """The cluster does not answer, or is lost."""


def find_ray() -> Any:
    """Ray's module; ConfigError if it is not installed."""
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise ConfigError("engine 'ray' needs Ray; install it with: pip install 'edgestill[ray]'") from None


def connect(ray: Any, address: str) -> None:
    """Join the cluster at `address`, or start Ray on this machine, without usage statistics and dashboard."""
    if ":" in address:
        _reach(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    runtime = {"env_vars": {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}}
    options: dict[str, Any] = {"runtime_env": runtime, "log_to_driver": False, "logging_level": "ERROR"}
    if not address:
        options["include_dashboard"] = False
    try:
        ray.init(address=address or "local", **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ClusterError(f"the Ray cluster at {address or 'this machine'}: {_line(error)}") from error


def files_of(request: Mapping[str, Any]) -> tuple[list[str], list[bytes]]:
    """Names and contents of the files in the request's folder."""
    folder = Path(request["folder"])
    names = sorted(path.name for path in folder.iterdir())
    return names, [(folder / name).read_bytes() for name in names]


def write_files(folder: Path, names: Sequence[str], blobs: Sequence[Buffer]) -> None:
    """The reverse."""
    for name, blob in zip(names, blobs, strict=True):
        (folder / name).write_bytes(blob)


def answer_with_files(
    function: str, request: Mapping[str, Any], names: Sequence[str], blobs: Sequence[bytes]
) -> tuple[dict[str, Any], list[str], list[bytes]]:
    """On any machine: call with the request's files in a local folder; the files that the call has written."""
    with tempfile.TemporaryDirectory(prefix="edgestill-call-") as name:
        folder = Path(name)
        write_files(folder, names, blobs)
        answer = call(function, {**request, "folder": name})
        made = sorted(path.name for path in folder.iterdir() if path.name not in names)
        return answer, made, [(folder / file).read_bytes() for file in made]


class RayTasks:
    """A pool as `aggregator.fusion.process_pool.Far` has it, on the cluster at `address`."""

    far = True

    def __init__(self, address: str) -> None:
        self._ray = ray = find_ray()
        if not ray.is_initialized():
            connect(ray, address)
        self._address = address
        self._task = ray.remote(num_cpus=1, max_retries=RETRIES)(_task)

    @property
    def workers(self) -> int:
        """The cluster's processors now."""
        return max(int(self._ray.cluster_resources().get("CPU", 1)), 1)

    def ask_all(self, call: str, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Every request is a task; the answers in the order of the requests."""
        try:
            sent = [self._task.remote(call, dict(request), *files_of(request)) for request in requests]
            answers = []
            for request, reference in zip(requests, sent, strict=True):
                answer, names, blobs = self._ray.get(reference)
                if "error" in answer:
                    raise RoundError(answer["error"])
                write_files(Path(request["folder"]), names, blobs)
                answers.append(answer)
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            raise ClusterError(f"the Ray cluster at {self._address} was lost: {_line(error)}") from error
        return answers

    def close(self) -> None:
        """Leave the cluster."""
        with suppress(self._ray.exceptions.RayError, ConnectionError):
            self._ray.shutdown()


def _task(
    function: str, request: Mapping[str, Any], names: Sequence[str], blobs: Sequence[bytes]
) -> tuple[dict[str, Any], list[str], list[bytes]]:
    """The task itself: errors of ours are answers, as Ray would send them pickled."""
    torch.set_num_threads(1)
    try:
        return answer_with_files(function, request, names, blobs)
    except EdgestillError as error:
        return {"error": str(error)}, [], []


def _reach(address: str) -> None:
    """ClusterError at once if nothing listens there: Ray would try for minutes, and print what it tries."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S).close()
    except (OSError, ValueError) as error:
        raise ClusterError(f"the Ray cluster at {address} does not answer: {_line(error)}") from error


def _line(error: BaseException) -> str:
    """The start of what Ray says, which may be many lines."""
    text = " ".join(str(getattr(error, "strerror", None) or error).split())
    return (text[:200] + " ...") if len(text) > 200 else text or type(error).__name__
