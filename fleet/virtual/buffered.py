"""Asynchronous rounds in virtual time: FedBuff, Nguyen et al. 2022, Algorithm 1, arXiv:2106.06639.

M devices train at any time, each from the model that was current when it started. An update goes to a buffer and frees
a place for another device; when the buffer holds K updates, they are fused and the model's version increases by one.
An update that started at version v and is fused into version t is tau = t - v versions stale; what it counts then is
specified in `aggregator/fusion/staleness.py`, which the service uses too.

The duration of a device's training does not depend on its result, so the order of all updates is known in advance.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from core.errors import ConfigError
from core.seeds import derive_seed

__all__ = ["Arrival", "Flush", "flushes"]

#: (device, how often it was invited, start time) -> arrival time of its update; infinity: never
Finish = Callable[[str, int, float], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """An update in the buffer."""

    device: str
    turn: int  # how often the device was invited, from 1
    version: int  # version of the model that it started from, from 0
    began: float
    arrived: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """A full buffer."""

    number: int  # version that it creates, from 1
    time: float
    arrivals: tuple[Arrival, ...]
    oldest: int  # oldest version that a device still needs

    def staleness(self, arrival: Arrival) -> int:
        """tau: versions between the model that the update started from and the one that it is fused into."""
        return self.number - 1 - arrival.version


def flushes(
    devices: Sequence[str],
    finish: Finish,
    *,
    concurrency: int,
    buffer: int,
    patience: float,
    seed: int = 0,
    max_staleness: float = math.inf,
) -> Iterator[Flush]:
    """Yield full buffers, endlessly; a device without an update after `patience` seconds loses its place.

    Updates that are more than `max_staleness` versions old are not used.
    """
    if not 1 <= concurrency <= len(devices):
        raise ConfigError(f"{concurrency} devices at a time; give 1 to {len(devices)}, as many as there are")
    if buffer < 1:
        raise ConfigError(f"a buffer of {buffer} updates; give at least 1")
    rng = np.random.default_rng(derive_seed(seed, "buffered"))
    idle, turns = list(devices), dict.fromkeys(devices, 0)
    queue: list[tuple[float, int, str, Arrival | None]] = []  # when a place becomes free, and its update
    version, started, waiting = 0, 0, list[Arrival]()

    def begin(now: float) -> None:
        nonlocal started
        device = idle.pop(int(rng.integers(len(idle))))
        turns[device] += 1
        started += 1
        at = finish(device, turns[device], now)
        if at <= now + patience:
            arrival = Arrival(device=device, turn=turns[device], version=version, began=now, arrived=at)
            heapq.heappush(queue, (at, started, device, arrival))
        else:
            heapq.heappush(queue, (now + patience, started, device, None))

    for _ in range(concurrency):
        begin(0.0)
    while True:
        now, _, device, arrival = heapq.heappop(queue)
        idle.append(device)
        if arrival is not None and version - arrival.version <= max_staleness:
            waiting.append(arrival)
            if len(waiting) == buffer:
                version += 1
                oldest = min((a.version for *_, a in queue if a is not None), default=version)
                yield Flush(number=version, time=now, arrivals=tuple(waiting), oldest=oldest)
                waiting = []
        begin(now)
