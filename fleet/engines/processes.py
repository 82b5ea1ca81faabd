"""Devices train in worker processes, one per core, which are reused from round to round.

Workers are forked from the simulation after its data is loaded, so they start in milliseconds (importing torch in a
fresh interpreter takes a second) and share the samples without copying. Each has one torch thread: thread pools slow
each other down on a busy machine.

Where torch has a GPU, a process that has used it cannot be forked into one that trains, nor one that has run a backward
pass, for which autograd starts a thread per GPU. So the workers are forked before this process scores and fuses, with
as many more in reserve, which replace lost ones.
"""

from __future__ import annotations

import os
import warnings
from contextlib import suppress

from torch import nn

from core.errors import RoundError
from core.processes.process import end_fork
from fleet.engines.channel import Channel, connected
from fleet.engines.pooled import Pooled, Worker
from fleet.engines.work import Bench
from fleet.engines.worker import run
from models.compute_device import has_accelerator, initialized

__all__ = ["Processes", "cores"]


MARGIN = 2**14  # bytes of a message in addition to a model's tensors


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Processes(Pooled):
    """See `fleet.engines.base.Engine`."""

    def __init__(self, bench: Bench, workers: int = 0) -> None:
        super().__init__(bench, workers or cores())
        self._open: list[Channel] = []  # a worker that inherited another's pipe would hide its end of file
        self._reserve: list[Worker] = []
        self._largest = MARGIN + max((_bytes(model) for model in bench.models.values()), default=0)

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers."""
        return [worker.name for worker in self._workers]

    def _ensure(self) -> None:
        first = not self._workers
        super()._ensure()
        if first and has_accelerator():
            self._reserve = [self._fork() for _ in range(self._count)]

    def _start(self) -> Worker:
        if self._reserve:
            return self._reserve.pop()
        if initialized(self._bench.device):
            raise RoundError(
                f"this process has used {self._bench.device}, so no worker can be forked; continue in a new one "
                "(--resume), or use --engine inline"
            )
        return self._fork()

    def close(self) -> None:
        """Stop all workers."""
        super().close()
        reserve, self._reserve = self._reserve, []
        for worker in reserve:
            worker.end()

    def _fork(self) -> Worker:
        ours, theirs = connected(self._largest)
        with warnings.catch_warnings():
            # Python warns about forking with threads; the engine's threads hold no lock that a worker needs
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            for channel in (ours, *self._open):
                channel.close()
            run(self._bench, theirs)
        theirs.close()
        self._open.append(ours)
        return Worker(pid, ours, lambda: self._end(pid, ours))

    def _end(self, pid: int, channel: Channel) -> None:
        end_fork(pid)  # a worker has no state worth saving
        channel.close()
        with suppress(ValueError):
            self._open.remove(channel)


def _bytes(model: nn.Module) -> int:
    return sum(tensor.nbytes for tensor in model.state_dict().values())
