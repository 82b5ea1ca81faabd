"""A simulated fleet in virtual time: boards, links and availability determine when each device answers.

Only devices whose update is fused are trained; the time and energy of the others are counted too. With a buffer there
are no rounds: `run_round(n)` is the n-th full buffer (`buffered.py`), and devices train from the model that they
started with.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any

import torch

from aggregator.fusion.staleness import discount, moved
from aggregator.fusion.types import Received
from aggregator.recipes.catalogue import PERSONAL
from aggregator.rounds.sampling import share_of
from aggregator.rounds.state import Rules
from core.errors import ConfigError
from fleet.data import Dataset
from fleet.results.run_file import RoundResult
from fleet.simulation.config import SimulationConfig
from fleet.simulation.device import SimulatedDevice
from fleet.simulation.hooks import NO_HOOKS, Hooks
from fleet.simulation.received import Sent
from fleet.simulation.round_message import Artifact
from fleet.simulation.simulation import Group, OnDevice, Simulation
from fleet.virtual.buffered import Flush, flushes
from fleet.virtual.hardware import Trip, Usage, usage, waiting
from fleet.virtual.rounds import Collected, collect
from fleet.virtual.work import forward_flops, training_flops
from quant.pack import unpack

__all__ = ["VirtualSimulation"]

PAUSE = 60.0  # virtual seconds until a round with too few available devices is retried


class VirtualSimulation(Simulation):
    """The same fleet; `now` is the virtual time, in seconds since the first round was opened."""

    def __init__(self, config: SimulationConfig, dataset: Dataset, *, hooks: Hooks = NO_HOOKS) -> None:
        assert config.virtual is not None
        self.virtual = config.virtual
        super().__init__(config, dataset, hooks=hooks)
        self.hardware, self.boards = self.virtual.hardware_of_all(), self.virtual.names_of_all()
        self.when = self.virtual.when([device.id for device in self.devices], config.seed)
        self.now = 0.0
        self._of_id = {device.id: device for device in self.devices}
        self._flops = {group.name: forward_flops(group.model) for group in self.groups}
        self._published_bytes: dict[str, int] = {}
        self._chosen: set[str] = set()
        self._versions: dict[int, Mapping[str, Artifact]] = {}  # published models that a device may still start from
        self._flush: Flush | None = None
        if self.virtual.buffer and self.update != "state":
            raise ConfigError(f"--buffer needs whole models; recipe {self.recipe.name} has devices send {self.update}")

    def invited(self, group: Group, round_number: int) -> list[SimulatedDevice]:
        """The devices whose update is fused."""
        if not self._published_bytes:
            return super().invited(group, round_number)  # before the first round: the upper bound
        return [device for device in group.devices if device.id in self._chosen]

    def run_round(self, round_number: int, *, on_device: OnDevice = lambda _: None) -> RoundResult:
        """As in real time; `virtual` of the result holds the virtual time and the boards' costs."""
        self._published_bytes = {g.name: len(self._published(g)) + self.side_artifact_bytes for g in self.groups}
        if self.virtual.buffer:
            flush = self._flush = next(self._flushes)
            self._chosen = {arrival.device for arrival in flush.arrivals}
            result = super().run_round(round_number, on_device=on_device)
            facts = self._flush_facts(flush, opened=self.now)
            self.now = flush.time
        else:
            collected = self._collect_in_time(round_number)
            self._chosen = set() if collected.abandoned else set(collected.answered)
            result = super().run_round(round_number, on_device=on_device)
            facts = self._round_facts(collected)
        return replace(result, virtual=facts)

    def _usage(self, device: SimulatedDevice, *, answers: bool = True) -> Usage:
        """The cost of a round; an update has the size of the published model, since both are packed alike."""
        size = self._published_bytes[device.prototype]
        flops = training_flops(self._flops[device.prototype], self.config.training, len(device.rows))
        if PERSONAL in self.recipe.local:  # a second training and, with a teacher, its forward pass over every sample
            teaches = self.recipe.local[PERSONAL] > 0
            flops = 2 * flops + teaches * self._flops[device.prototype] * len(device.rows)
        trip = Trip(down_bytes=size, flops=flops, up_bytes=size if answers else 0)
        return usage(self.hardware[device.number], trip)

    # rounds

    def _collect_in_time(self, round_number: int) -> Collected:
        there = {d.id: d.prototype for d in self.devices if self.when.there(d.id, round_number, self.now)}
        opened = self.now

        def arrivals(invited: Mapping[str, str]) -> dict[str, float]:
            return {name: self._arrival(name, round_number, opened) for name in invited}

        collected = collect(self._rules, round_number, there, opened, arrivals)
        self.now = collected.closed if collected.invited else self._next_try()
        return collected

    @cached_property
    def _rules(self) -> Rules:
        return Rules(
            seed=self.config.seed,
            prototypes=self.config.prototypes,
            rounds=self.config.rounds,
            fraction=self.config.fraction,
            min_devices=1,
            quorum=self.virtual.quorum,
            deadline_s=self.virtual.deadline_s,
        )

    def _arrival(self, name: str, turn: int, begins: float) -> float:
        if self.when.drops(name, turn):
            return math.inf
        return self.when.finish(name, begins, self._usage(self._of_id[name]).seconds)

    def _next_try(self) -> float:
        return max(self.now + PAUSE, min(self.when.next(device.id, self.now) for device in self.devices))

    def _round_facts(self, collected: Collected) -> dict[str, Any]:
        lost = set(collected.lost)
        costs = {name: self._until_closed(name, collected, lost) for name in collected.invited}
        return {
            "opened_s": round(collected.opened, 3),
            "closed_s": round(self.now, 3),
            "invited": len(collected.invited),
            "late": list(collected.late),
            "lost": list(collected.lost),
            **({"abandoned": collected.abandoned} if collected.abandoned else {}),
            "boards": self._by_board(costs),
        }

    def _until_closed(self, name: str, collected: Collected, lost: Collection[str]) -> Usage:
        """A device's part in a round, and its wait for the others."""
        device = self._of_id[name]
        busy = self._usage(device, answers=name not in lost)
        idle = collected.closed - collected.opened - busy.seconds
        return busy + waiting(self.hardware[device.number], idle)

    def _by_board(self, costs: Mapping[str, Usage]) -> dict[str, dict[str, float]]:
        totals: dict[str, Usage] = {}
        for name, cost in costs.items():
            board = self.boards[self._of_id[name].number]
            totals[board] = totals.get(board, Usage()) + cost
        return {board: {k: round(v, 3) for k, v in asdict(total).items()} for board, total in sorted(totals.items())}

    # buffers

    @cached_property
    def _flushes(self) -> Iterator[Flush]:
        return flushes(
            [device.id for device in self.devices],
            self._arrival,
            concurrency=self.virtual.concurrency or share_of(len(self.devices), self.config.fraction),
            buffer=self.virtual.buffer,
            patience=self.virtual.deadline_s,
            seed=self.config.seed,
            max_staleness=math.inf if self.virtual.max_staleness is None else self.virtual.max_staleness,
        )

    def _collect(self, round_number: int, published: dict[str, Artifact], on_device: OnDevice) -> list[Sent]:
        """With a buffer: train the devices from the version that each started with."""
        flush = self._flush
        if flush is None:
            return super()._collect(round_number, published, on_device)
        self._versions[round_number - 1] = published
        sent: list[Sent] = []
        for version in sorted({arrival.version for arrival in flush.arrivals}):
            # a device that is in the buffer twice is fused once, with its last update
            latest = {arrival.device: arrival.version for arrival in flush.arrivals}
            self._chosen = {device for device, began in latest.items() if began == version}
            began = self._versions[version]
            made = super()._collect(round_number, dict(began), on_device)
            stale = discount(round_number - 1 - version, self.virtual.staleness)
            sent += [replace(s, update=_moved(s, began, published, stale)) for s in made]
        self._chosen = {arrival.device for arrival in flush.arrivals}
        self._versions = {version: kept for version, kept in self._versions.items() if version >= flush.oldest}
        return sorted(sent, key=lambda one: one.device.number)

    def _flush_facts(self, flush: Flush, opened: float) -> dict[str, Any]:
        costs: dict[str, Usage] = {}
        for arrival in flush.arrivals:
            costs[arrival.device] = costs.get(arrival.device, Usage()) + self._usage(self._of_id[arrival.device])
        return {
            "opened_s": round(opened, 3),
            "closed_s": round(flush.time, 3),
            "staleness": [flush.staleness(arrival) for arrival in flush.arrivals],
            "boards": self._by_board(costs),
        }


def _moved(sent: Sent, began: Mapping[str, Artifact], current: Mapping[str, Artifact], share: float) -> Received | None:
    """The update as it is fused: w_t + s (w_k - w_v); unchanged if it is not stale."""
    update, name = sent.update, sent.device.prototype
    if update is None or began[name].digest == current[name].digest:
        return update

    def state() -> dict[str, torch.Tensor]:
        return moved(update.state(), unpack(began[name].tensors), unpack(current[name].tensors), share)

    return replace(update, state=state)
