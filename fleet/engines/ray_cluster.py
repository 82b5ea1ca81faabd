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
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from aggregator.fusion.ray_tasks import ClusterError, answer_with_files, connect, files_of, find_ray, write_files
from core.errors import ConfigError
from fleet.data import Dataset
from fleet.engines.channel import Frame
from fleet.engines.pooled import Pooled, Worker
from fleet.engines.work import Bench
from fleet.engines.worker import FAULTS, fault_text, obey
from fleet.simulation.config import SimulationConfig
from fleet.simulation.device import make_devices
from fleet.simulation.round_message import Artifact
from fleet.simulation.specs import spec_of
from models.build import build
from models.compute_device import find_device

__all__ = ["OnRay"]

ARRAYS = ("x_train", "y_train", "x_test", "y_test")
FACTS = ("name", "kind", "class_names", "mean", "std", "vocab", "variant")
SILENT = ("hold", "round")  # kinds without an answer
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
                return [_called(facts, blobs)]
            frame = Frame(kind, facts, [bytearray(blob) for blob in blobs])
            obey(frame, self._bench, self._held, lambda *answer: answers.append(answer))
        except FAULTS as error:
            answers.append(("error", {"text": fault_text(error)}, []))
        return answers


def _called(facts: dict[str, Any], blobs: list[bytes]) -> Told:
    answer, made, written = answer_with_files(facts["call"], facts["request"], facts["files"], blobs)
    return "called", {"answer": answer, "files": made}, written


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


class OnRay(Pooled):
    """See `fleet.engines.base.Engine`."""

    far = True  # for teachers' forward passes too

    def __init__(self, bench: Bench, workers: int = 0, address: str = "") -> None:
        self._ray = ray = find_ray()
        self._ours = not ray.is_initialized()
        if self._ours:
            try:
                connect(ray, address)
            except ClusterError as error:
                raise ConfigError(f"--address {address}: {error}") from error
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
        files, blobs = files_of(request)
        worker.channel.send("call", {"call": call, "request": dict(request), "files": files}, blobs)
        frame = worker.receive("called")
        write_files(Path(request["folder"]), frame.facts["files"], frame.blobs)
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
