"""Devices train in Ray actors, on this machine or on a cluster; students are distilled there too.

An actor builds the devices from the configuration and reads the samples from Ray's object store, once per machine. It
handles the frames of `fleet/engines/worker.py`, so it exchanges the same bytes as worker processes, inside Ray's own
encoding. An actor that is lost with its machine is replaced wherever Ray has capacity.

Ray listens on the machine's network address even if it is started for this machine alone: it replaces a loopback
address by the network address (`resolve_ip_for_localhost` of Ray 2.60). Use it only in trusted networks.
"""

from __future__ import annotations

import importlib
import itertools
import os
import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from core.errors import ConfigError
from fleet.data import Dataset
from fleet.engines.channel import Frame
from fleet.engines.pooled import Pooled, Worker
from fleet.engines.work import Bench, call
from fleet.engines.worker import FAULTS, fault_text, obey
from fleet.simulation.config import SimulationConfig
from fleet.simulation.device import make_devices
from fleet.simulation.round_message import Artifact
from fleet.simulation.specs import spec_of
from models.build import build
from models.compute_device import find_device

__all__ = ["OnRay", "find_ray"]

ARRAYS = ("x_train", "y_train", "x_test", "y_test")
FACTS = ("name", "kind", "class_names", "mean", "std", "vocab", "variant")
SILENT = ("hold", "round")  # kinds without an answer
ROOT = Path(__file__).resolve().parents[2]
Told = tuple[str, dict[str, Any], list[bytes]]  # kind, fields, blobs of a frame


class Actor:
    """The work of an actor, with its own bench."""

    def __init__(
        self, config: dict[str, Any], facts: dict[str, Any], arrays: Sequence[Any], test: Sequence[Any]
    ) -> None:
        torch.set_num_threads(1)
        settings = SimulationConfig.from_json(config)
        dataset = Dataset(**facts, **dict(zip(ARRAYS, arrays, strict=True)))
        x, y = (torch.from_numpy(array.copy()) for array in test)
        self._bench = Bench(
            devices=make_devices(settings, dataset),
            models={name: build(spec_of(name, settings, dataset)) for name in settings.prototypes},
            test=(x, y),
            device=find_device(settings.compute),
        )
        self._held: dict[str, Artifact] = {}

    def handle(self, kind: str, facts: dict[str, Any], blobs: list[bytes]) -> list[Told]:
        """The answers of a worker process to this frame, in order."""
        answers: list[Told] = []
        try:
            if kind == "call":
                return [_call_beside(facts, blobs)]
            frame = Frame(kind, facts, [bytearray(blob) for blob in blobs])
            obey(frame, self._bench, self._held, lambda *answer: answers.append(answer))
        except FAULTS as error:
            answers.append(("error", {"text": fault_text(error)}, []))
        return answers


def _call_beside(facts: dict[str, Any], blobs: list[bytes]) -> Told:
    """Call with the request's files in a local folder; return the files that the call has written."""
    with tempfile.TemporaryDirectory(prefix="edgestill-call-") as name:
        folder = Path(name)
        for file, blob in zip(facts["files"], blobs, strict=True):
            (folder / file).write_bytes(blob)
        answer = call(facts["call"], {**facts["request"], "folder": name})
        made = sorted(path.name for path in folder.iterdir() if path.name not in facts["files"])
        return "called", {"answer": answer, "files": made}, [(folder / file).read_bytes() for file in made]


class _Link:
    """Frames to an actor, which processes them in order, one at a time."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray, self._actor = ray, actor
        self._waiting: deque[Any] = deque()
        self._told: deque[Told] = deque()

    def send(self, kind: str, facts: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> None:
        answer = self._actor.handle.remote(kind, dict(facts), [bytes(blob) for blob in blobs])
        if kind not in SILENT:
            self._waiting.append(answer)

    def receive(self) -> Frame:
        try:
            while not self._told:
                self._told.extend(self._ray.get(self._waiting.popleft()))
        except self._ray.exceptions.RayError as error:
            raise EOFError(f"the actor is lost: {error}") from None
        kind, facts, blobs = self._told.popleft()
        return Frame(kind, facts, [bytearray(blob) for blob in blobs])


def find_ray() -> Any:
    """Ray's module; ConfigError if it is not installed."""
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise ConfigError("engine 'ray' needs Ray; install it with: pip install 'edgestill[ray]'") from None


class OnRay(Pooled):
    """See `fleet.engines.base.Engine`."""

    far = True  # for teachers' forward passes too

    def __init__(self, bench: Bench, workers: int = 0, address: str = "") -> None:
        self._ray = ray = find_ray()
        self._ours = not ray.is_initialized()
        if self._ours:
            _connect(ray, address)
        super().__init__(bench, workers or max(int(ray.cluster_resources().get("CPU", 1)), 1))
        self._gpus = _gpus_per_actor(bench, dict(ray.cluster_resources()), self._count)
        device = bench.devices[0]
        self._config = device.config.to_json()
        self._facts = {name: getattr(device.dataset, name) for name in FACTS}
        self._arrays = [ray.put(getattr(device.dataset, name)) for name in ARRAYS]
        self._test = [ray.put(part.numpy()) for part in bench.test]
        self._names = itertools.count()

    def _start(self) -> Worker:
        actor = self._ray.remote(num_cpus=1, num_gpus=self._gpus)(_Remote).remote(
            self._config, self._facts, self._arrays, self._test
        )

        def end() -> None:
            with suppress(self._ray.exceptions.RayError):
                self._ray.kill(actor)

        return Worker(next(self._names), _Link(self._ray, actor), end)

    def _devices(self) -> list[torch.device]:
        """Ray shows each actor its own GPU alone."""
        return []

    def _ask(self, worker: Worker, call: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send the files of the request's folder too: the actor may run on another machine."""
        folder = Path(request["folder"])
        files = sorted(path.name for path in folder.iterdir())
        facts = {"call": call, "request": dict(request), "files": files}
        worker.channel.send("call", facts, [(folder / file).read_bytes() for file in files])
        frame = worker.receive("called")
        for file, blob in zip(frame.facts["files"], frame.blobs, strict=True):
            (folder / file).write_bytes(blob)
        return dict(frame.facts["answer"])

    def close(self) -> None:
        """Stop the actors, and Ray if it was started here."""
        super().close()
        if self._ours:
            self._ray.shutdown()


def _gpus_per_actor(bench: Bench, resources: Mapping[str, float], actors: int) -> float:
    """The share of a GPU that each actor asks for: Ray hides the GPUs from actors that ask for none."""
    asked, gpus = bench.devices[0].config.compute, resources.get("GPU", 0.0)
    if asked not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"--compute {asked}: Ray assigns its GPUs to actors itself; give auto, cpu or cuda")
    if asked == "cuda" and not gpus:
        raise ConfigError("--compute cuda: the Ray cluster has no GPU; give auto or cpu")
    return 0.0 if asked == "cpu" else min(1.0, gpus / actors)


class _Remote(Actor):
    """The actor class that Ray instantiates: samples arrive as references to its object store."""

    def __init__(
        self, config: dict[str, Any], facts: dict[str, Any], arrays: Sequence[Any], test: Sequence[Any]
    ) -> None:
        ray: Any = importlib.import_module("ray")
        super().__init__(config, facts, ray.get(list(arrays)), ray.get(list(test)))


def _connect(ray: Any, address: str) -> None:
    """Join the cluster at `address`, or start Ray on this machine, without usage statistics and dashboard."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    runtime = {"env_vars": {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}}
    options: dict[str, Any] = {"runtime_env": runtime, "log_to_driver": False, "logging_level": "ERROR"}
    if not address:
        options["include_dashboard"] = False
    try:
        ray.init(address=address or "local", **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(f"--address {address}: {' '.join(str(error).split())}") from error
