"""Whatever is killed or stopped, whenever: nothing accepted is lost, nothing is counted twice, the models are the same.

Agents, their training children, the aggregator, its worker and the broker are killed (SIGKILL) or stopped for a while
(SIGSTOP) in an order that the seed decides; the moments are the machine's.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from fleet.mqtt.fleet import MqttSimulation
from tests.brokers import Broker
from tests.brokers import broker as broker
from tests.e2e.fleets import (
    assert_as_replayed,
    assert_equal,
    completed,
    config,
    finals,
    fleet,
    make_asynchronous,
    undisturbed,
    updates_by_round,
)

ROUNDS = 20
TIMEOUT_S = 900.0
KINDS = ("agent", "child", "aggregator", "worker", "broker", "pause")


def processes_below(parent: int) -> dict[int, str]:
    """The command lines of all descendants of a process, by process id."""
    parents, lines = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                lines[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    found: dict[int, str] = {}
    frontier = {parent}
    while frontier:
        frontier = {pid for pid, above in parents.items() if above in frontier} - found.keys()
        found |= {pid: lines[pid] for pid in frontier}
    return found


class Havoc:
    """Does harm of all kinds to a fleet, and counts it."""

    def __init__(self, simulation: MqttSimulation, broker: Broker, seed: int) -> None:
        self.simulation, self.broker, self.rng = simulation, broker, random.Random(seed)
        self.done: Counter[str] = Counter()
        self._children: Counter[tuple[str, int]] = Counter()  # killed, by device and round

    def strike(self) -> None:
        """One blow, of a kind of which there were few."""
        fewest = min(self.done[kind] for kind in KINDS)
        kind = self.rng.choice([kind for kind in KINDS if self.done[kind] <= fewest + 2])
        if getattr(self, f"_{kind}")():
            self.done[kind] += 1

    def _agent(self) -> bool:
        device = self.rng.choice(self.simulation.devices).id
        self.simulation.processes.kill(device)
        self.simulation.start_agent(device)
        return True

    def _aggregator(self) -> bool:
        self.simulation.processes.kill("aggregator")
        self.simulation.start_aggregator()
        return True

    def _child(self) -> bool:
        name = self.rng.choice(self.simulation.devices).id
        key = name, completed(self.simulation)
        if self._children[key] == 2:  # after the third death in a round an agent gives the round up, as it should
            return False
        killed = self._kill_below(name, "edge_agent")
        self._children[key] += killed
        return killed

    def _worker(self) -> bool:
        return self._kill_below("aggregator", "aggregator.worker")

    def _broker(self) -> bool:
        getattr(self.broker, "kill", self.broker.stop)()
        time.sleep(self.rng.uniform(0, 1))
        self.broker.start()
        return True

    def _pause(self) -> bool:
        process = self.rng.choice(list(self.simulation.processes.running.values()))
        everybody = [process.pid, *processes_below(process.pid)]
        pid = self.rng.choice(everybody)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(self.rng.uniform(0.2, 3))
            os.kill(pid, signal.SIGCONT)
            return True
        return False

    def _kill_below(self, name: str, word: str) -> bool:
        below = processes_below(self.simulation.processes.running[name].pid)
        victims = [pid for pid, line in below.items() if word in line]
        with contextlib.suppress(ProcessLookupError):
            if victims:
                os.kill(self.rng.choice(victims), signal.SIGKILL)
                return True
        return False


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_twenty_rounds_in_which_everything_is_killed(tmp_path: Path, broker: Broker, mode: str) -> None:
    settings = config(ROUNDS, devices=3, prototypes=("mlp:fp32", "cnn:w1"))
    with fleet(settings, tmp_path / "fleet", broker.config) as simulation:
        if mode == "async":
            make_asynchronous(simulation, buffer=3)
        simulation.start_aggregator()
        for device in simulation.devices:
            simulation.start_agent(device.id)
        havoc = Havoc(simulation, broker, seed=1)
        until = time.monotonic() + TIMEOUT_S
        while (done := completed(simulation)) < ROUNDS:
            assert time.monotonic() < until, f"stuck in round {done + 1} after {havoc.done}"
            time.sleep(havoc.rng.uniform(0.5, 4))
            if done < ROUNDS - 1:
                havoc.strike()
            for name in list(simulation.processes.running):
                assert not simulation.processes.ended(name), f"{name}: {simulation.processes.last_line(name)}"
        assert all(havoc.done[kind] >= 2 for kind in KINDS), havoc.done
        if mode == "async":
            assert len(assert_as_replayed(simulation, 3)) >= 3 * ROUNDS
            return
        everybody = sorted(device.id for device in simulation.devices)
        assert updates_by_round(simulation) == dict.fromkeys(range(1, ROUNDS + 1), everybody)
        with simulation.journal() as journal:
            assert [row.phase for row in journal.rounds()] == ["closed"] * ROUNDS
            assert [journal.excluded(number) for number in range(1, ROUNDS + 1)] == [{}] * ROUNDS
        assert_equal(finals(simulation), undisturbed(settings))
