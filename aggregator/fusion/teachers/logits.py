"""Teachers' logits, by the fastest available method.

On the CPU a teacher is an ONNX Runtime session of one thread, and several teachers run in parallel: 2.6 to 2.9 times
the speed of torch for a ResNet-8. One graph per prototype is exported once and cached; a teacher's weights are patched
in by name. Models that cannot be exported run in torch, with folded BatchNorm and channels last; on a GPU all do.
Received weights are used as they are: quantized weights are not quantized again, quantized activations are.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from aggregator.fusion.teachers.compiled import frozen_module, graph_template, prepare
from core.errors import ModelError
from models.compute_device import CPU, out_of_memory
from models.spec import PrototypeSpec
from quant.onnx.graph_check import check_graph
from quant.onnx.session import open_session, run_graph
from quant.onnx.weights import patch_weights

__all__ = ["CPU", "Forward", "OnnxTeacher", "StateTeacher", "Teacher", "all_logits", "cores", "forward_all"]

BATCH, GPU_BATCH = 128, 1024  # samples at a time; more than 128 is slower on a CPU
Forward = Callable[[Tensor], Tensor]  # (B, ...) -> logits (B, C), float32 on the CPU


class Teacher(Protocol):
    """A frozen model with a name, loaded when it is opened."""

    @property
    def device(self) -> str:
        """The device that sent it, or another name."""

    @property
    def classes(self) -> int | None:
        """Number of classes, if known before it is opened."""

    def prepare(self, compute_device: torch.device, /) -> None:
        """Create what it shares with others; `open` may then be called in any thread."""

    def open(self, compute_device: torch.device, /) -> Forward:
        """Load the model for inference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTeacher:
    """A received model: its prototype, and its tensors on demand."""

    device: str
    spec: PrototypeSpec
    state: Callable[[], Mapping[str, Tensor]]

    @property
    def classes(self) -> int | None:
        """Number of classes of the prototype."""
        return self.spec.classes

    def prepare(self, compute_device: torch.device) -> None:
        """The prototype's template."""
        prepare(self.spec, compute_device)

    def open(self, compute_device: torch.device) -> Forward:
        """ONNX Runtime on the CPU if the prototype can be exported, else torch."""
        template = graph_template(self.spec) if compute_device.type == "cpu" else None
        if template is None:
            return frozen_module(self.spec, self.state(), compute_device)
        arrays = {name: t.detach().cpu().numpy() for name, t in self.state().items()}
        return _session(patch_weights(template, arrays))


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxTeacher:
    """A model as an ONNX graph: one input, logits as the first output. It runs on the CPU."""

    device: str
    graph: bytes
    classes: int | None = None

    def prepare(self, compute_device: torch.device) -> None:
        """It shares nothing."""

    def open(self, compute_device: torch.device) -> Forward:
        """The graph, after checks: it is untrusted."""
        check_graph(self.graph)
        return _session(self.graph)


def _session(graph: bytes) -> Forward:
    session = open_session(graph)

    def forward(x: Tensor) -> Tensor:
        return torch.from_numpy(run_graph(session, x.numpy()))

    return forward


def cores() -> int:
    """Number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def all_logits(
    teachers: Sequence[Teacher],
    x: Tensor,
    *,
    compute_device: torch.device = CPU,
    batch_size: int | None = None,
    workers: int | None = None,
) -> Iterator[Tensor]:
    """The (N, C) logits of each teacher on all of `x`, in the order of the teachers, on the CPU.

    On the CPU, `workers` teachers (by default one per core) run in parallel and few finished ones are queued, so only a
    few (N, C) are in memory, not K. The results do not depend on the number of workers.
    """
    workers = workers or cores()
    batch_size = batch_size or (BATCH if compute_device.type == "cpu" else GPU_BATCH)
    for teacher in teachers:
        teacher.prepare(compute_device)
    if compute_device.type != "cpu" or workers == 1 or len(teachers) < 2:
        for teacher in teachers:
            yield forward_all(teacher.open(compute_device), x, batch_size=batch_size)
        return
    with ThreadPoolExecutor(min(workers, len(teachers))) as pool:
        waiting: deque[Future[Tensor]] = deque()
        try:
            for teacher in teachers:
                if len(waiting) > workers:
                    yield waiting.popleft().result()
                waiting.append(pool.submit(_answer, teacher, x, compute_device, batch_size))
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _answer(teacher: Teacher, x: Tensor, compute_device: torch.device, batch_size: int) -> Tensor:
    return forward_all(teacher.open(compute_device), x, batch_size=batch_size)


def forward_all(forward: Forward, x: Tensor, *, batch_size: int = BATCH) -> Tensor:
    """(N, C) logits in batches. On out of memory, the batch is halved and the work continues from the same sample."""
    parts: list[Tensor] = []
    start = 0
    while start < len(x):
        batch = x[start : start + batch_size]
        try:
            parts.append(forward(batch))
        except (RuntimeError, MemoryError, ModelError) as error:
            if not out_of_memory(error) or len(batch) == 1:
                raise
            batch_size = len(batch) // 2
            continue
        start += len(batch)
    return torch.cat(parts)
