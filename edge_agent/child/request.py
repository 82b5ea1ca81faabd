"""The request of the agent to its training child, and the child's exit codes. Imports no torch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from edge_agent.config import AgentConfig
from edge_agent.protocol.events import StartTraining
from edge_agent.samples.spec import SourceSpec, spec_of
from wire.messages import Hyper, Job

__all__ = ["DISK_FULL", "OUT_OF_MEMORY", "Request", "make_request"]

#: Exit codes of the child besides those of `core/errors.py`: the numbers of ENOMEM and ENOSPC.
OUT_OF_MEMORY, DISK_FULL = 12, 28
RESERVE, MAX_RESERVE_S = 0.1, 30.0  # of the time up to a deadline, reserved for packing and sending


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One piece of work. With a round, train and commit an update; without, only install the model if good enough."""

    parent: int  # process id: the child ends with it
    key: str
    state_dir: str
    fleet: str
    device: str
    private_key: str  # path
    aggregator: str  # public key in hex
    prototype: str
    model: str  # path of the sealed artifact
    base: str  # its digest
    data: str
    validation: float
    refuse_worse: bool
    floats: str
    threads: int
    nice: int
    memory_mb: int | None
    fast: str = "auto"
    compute: str = "cpu"  # the device that trains, by its name
    amp: str = "off"
    round: int | None = None
    hyper: Hyper | None = None
    update: str = "state"
    bits: int | None = None
    side_artifact: str | None = None  # path of a sealed artifact to learn from: edge_agent/objectives/side_artifact.py
    raw_input: bool = False  # whether the board's model normalizes its inputs itself
    runtime: str | None = None  # the oldest ONNX Runtime that must load the board's model
    graph: str | None = None  # of a light device, which trains its predictor without torch
    refresh: str = "always"  # when it takes the fleet's extractor: edge_agent/light/graph.py
    count_epsilon: float | None = None  # of label counts
    count_bins: int | None = None
    source: SourceSpec | None = None  # of samples that are more than the .npz at `data`
    stop_at: float | None = None  # of the system's monotonic clock, which parent and child share

    def encode(self) -> bytes:
        """The encoded request for the child's standard input."""
        return msgspec.json.encode(self)

    @property
    def samples(self) -> SourceSpec:
        """Where the samples are."""
        if self.source is not None:
            return self.source
        return SourceSpec(path=self.data, validation=self.validation, memory_mb=self.memory_mb)

    @classmethod
    def decode(cls, data: bytes) -> Request:
        """The inverse of `encode`."""
        return msgspec.json.decode(data, type=cls)


def make_request(
    config: AgentConfig, action: StartTraining, *, model: Path, aggregator: str, now: float, side_artifact: Path | None
) -> Request:
    """The request for a job or an offer; `model` and `side_artifact` are the paths of its artifacts."""
    work, left = action.instruction, action.seconds_left
    job = work if isinstance(work, Job) else None
    kind, bits = _update_of(config, job)
    return Request(
        parent=os.getpid(),
        key=action.key,
        state_dir=str(config.state_dir.resolve()),
        fleet=config.fleet,
        device=config.device,
        private_key=str(config.private_key.resolve()),
        aggregator=aggregator,
        prototype=config.prototype,
        model=str(model.resolve()),
        base=work.model,
        data=str(config.data.path.resolve()),
        round=job.round if job else None,
        hyper=job.hyper if job else None,
        update=kind,
        bits=bits,
        side_artifact=None if side_artifact is None else str(side_artifact.resolve()),
        source=spec_of(config.data, config.train.memory_mb),
        stop_at=None if left is None else now + left - min(RESERVE * left, MAX_RESERVE_S),
        **_settings_of(config),
    )


def _settings_of(config: AgentConfig) -> dict[str, Any]:
    """The fields of a request that agent.toml alone decides, by the names they have there."""
    train, data = config.train, config.data
    light = train.mode == "light"
    return {
        "validation": data.validation,
        "refuse_worse": data.refuse_worse,
        "count_epsilon": data.count_epsilon,
        "count_bins": data.count_bins,
        "floats": config.floats,
        "threads": train.threads,
        "nice": train.nice,
        "memory_mb": train.memory_mb,
        "fast": train.fast,
        "compute": train.device,
        "amp": train.amp,
        "raw_input": config.raw_input,
        "runtime": config.runtime,
        "graph": str(config.graph.resolve()) if light and config.graph is not None else None,
        "refresh": config.refresh,
    }


def _update_of(config: AgentConfig, job: Job | None) -> tuple[str, int | None]:
    """The kind of update, as agent.toml or the job says, and the bits of a delta."""
    kind, bits = str(config.update.kind), config.update.delta_bits
    if job is not None and kind == "job":
        kind, bits = job.update, job.bits
    if config.train.mode == "light":
        return "predictor" if kind != "none" else kind, None  # a light child refuses none
    return kind, bits
