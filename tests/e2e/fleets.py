"""Small real fleets for end-to-end tests, and what an undisturbed run of them gives."""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from aggregator.storage.artifacts import open_artifact
from aggregator.storage.blobs import Blobs
from core.config_keys import read_toml
from core.toml_writer import toml_text
from edge_agent.training.params import LocalTraining
from fleet.data import Dataset
from fleet.mqtt.fleet import MqttSimulation
from fleet.simulation.config import SimulationConfig
from fleet.simulation.simulation import Simulation
from models.build import build
from quant.onnx.export import export_onnx
from quant.pack import load_packed, pack_state
from tests.aggregator.replayed import accepted, replay
from transport.config import BrokerConfig
from wire.tensors import Tensor, decode, encode

TRAINING = LocalTraining(lr=0.05, batch_size=8, steps=3, momentum=0.9)
TIMEOUT = 600.0  # without progress; ends a test that hangs


def toy() -> Dataset:
    """Three classes of 8x8 images, told apart by the bright row."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=150).astype(np.int64)
    x = rng.normal(0, 0.4, (150, 1, 8, 8)).astype(np.float32)
    x[np.arange(150), :, 2 * y] += 1.5
    return Dataset(
        name="toy",
        kind="image",
        x_train=x[:120],
        y_train=y[:120],
        x_test=x[120:],
        y_test=y[120:],
        class_names=("a", "b", "c"),
    )


def config(
    rounds: int, devices: int = 2, prototypes: tuple[str, ...] = ("mlp:fp32", "cnn:w1"), **changes: Any
) -> SimulationConfig:
    return SimulationConfig(
        dataset="toy",
        devices=devices,
        prototypes=prototypes,
        training=TRAINING,
        alpha=10.0,
        rounds=rounds,
        latent=8,
        transport="mqtt",
        **changes,
    )


def undisturbed(settings: SimulationConfig) -> dict[str, dict[str, Tensor]]:
    """The final models of the in-process simulation, as they would be published."""
    simulation = Simulation(settings, toy())
    for number in range(1, settings.rounds + 1):
        simulation.run_round(number)
    return {
        group.name: decode(
            encode(pack_state(group.state, floats=settings.floats_of(group.model.spec.precision.quantized)))
        )
        for group in simulation.groups
    }


@contextmanager
def fleet(settings: SimulationConfig, folder: Path, broker: BrokerConfig) -> Iterator[MqttSimulation]:
    """A fleet whose files are written and whose processes are stopped at the end; nothing is started."""
    simulation = MqttSimulation(settings, toy(), folder, broker)
    simulation.write_files()
    try:
        yield simulation
    finally:
        simulation.processes.stop()


def make_light(simulation: MqttSimulation, device: str, **model: str) -> None:
    """Let this device train its predictor only, as a kit sets it up; `model` are further keys of [model]."""
    own = next(d for d in simulation.devices if d.id == device)
    group = next(g for g in simulation.simulation.groups if g.name == own.prototype)
    first = build(group.model.spec)
    load_packed(first, {name: w.numpy() for name, w in group.state.items()})
    export_onnx(first, first.example_input(2), simulation.folder / device / "model.onnx")
    path = simulation.folder / device / "agent.toml"
    keys = "".join(f'{key} = "{value}"\n' for key, value in {"graph": "model.onnx", **model}.items())
    path.write_text(
        path.read_text().replace("[train]", '[train]\nmode = "light"').replace("[model]", f"[model]\n{keys}")
    )


def make_asynchronous(simulation: MqttSimulation, **rules: object) -> None:
    """Let the aggregator have asynchronous rounds, with these keys in [round]; all updates are kept."""
    path = simulation.folder / "aggregator" / "fleet.toml"
    tables = read_toml(path)
    tables["round"] |= {"mode": "async", **rules}
    tables["state"]["keep_rounds"] = 1000
    path.write_text(toml_text(tables))


def assert_as_replayed(simulation: MqttSimulation, buffer: int) -> list[tuple[str, int]]:
    """Every model is what virtual time makes of the accepted updates, bit by bit, and each answers a job of its own.

    Returns device and job of the updates, in the order in which they were accepted.
    """
    blobs = Blobs(simulation.state / "blobs")
    with simulation.journal() as journal:
        assert journal is not None
        closed = [row.number for row in reversed(journal.rounds()) if row.phase == "closed"]
        digests = {(m.round, m.prototype): m.digest for m in journal.models() if m.origin == "fused"}
        order = accepted(journal)
    spec = simulation.simulation.groups[0].model.spec
    versions = replay(simulation.state, (spec.input_shape, spec.classes, simulation.config.latent), buffer)
    assert len(versions) == len(closed) > 0
    for version, models in versions.items():
        number = closed[version - 1]
        found = {name: decode(open_artifact(blobs.read(digests[number, name]))[1]) for name in models}
        assert_equal(found, models)
    assert len({job for _, job in order}) == len(order)
    return order


def finals(simulation: MqttSimulation) -> dict[str, dict[str, Tensor]]:
    """The published models after the last round."""
    blobs = Blobs(simulation.state / "blobs")
    with simulation.journal() as journal:
        assert journal is not None
        current = journal.current()
    return {name: decode(open_artifact(blobs.read(current[name].digest))[1]) for name in simulation.config.prototypes}


class Patience:
    """Ends a wait in which nothing happens; how long all of it takes depends on the machine."""

    def __init__(self) -> None:
        self._progress: object = None
        self._until = 0.0

    def check(self, progress: object, line: Callable[[], str]) -> None:
        """Fail if `progress` has been the same for TIMEOUT seconds; `line` is a process's last log line."""
        now = time.monotonic()
        if progress != self._progress:
            self._progress, self._until = progress, now + TIMEOUT
        assert now < self._until, f"stuck at {progress}: {line()}"


def completed(simulation: MqttSimulation) -> int:
    """Rounds that are closed."""
    with simulation.journal() as journal:
        return journal.completed() if journal is not None else 0


def wait_for_rounds(simulation: MqttSimulation, rounds: int) -> None:
    """Until so many are closed."""
    patience = Patience()
    while (closed := completed(simulation)) < rounds:
        simulation.processes.check()
        patience.check(closed, lambda: simulation.processes.last_line("aggregator"))
        time.sleep(0.1)


def run_with_crashes(simulation: MqttSimulation, victim: str, points: list[str]) -> list[str]:
    """Run; whenever `victim` is killed at its point it is started again with the next one.

    Ends, with every process stopped, when a round was closed after the last kill, or with the last round. Returns the
    points at which it died.
    """
    waiting, died = deque(points), []
    starters: Mapping[str, Callable[..., None]] = {
        "aggregator": simulation.start_aggregator,
        **{d.id: lambda d=d, **env: simulation.start_agent(d.id, **env) for d in simulation.devices},
    }

    def start_victim() -> None:
        environment = {"EDGESTILL_CRASH_AT": waiting.popleft()} if waiting else {}
        armed.append(environment.get("EDGESTILL_CRASH_AT", ""))
        starters[victim](**environment)

    armed: list[str] = []
    for name, start in starters.items():
        if name == victim:
            start_victim()
        else:
            start()
    patience, enough = Patience(), simulation.config.rounds
    while (closed := completed(simulation)) < enough:
        patience.check((closed, len(died)), lambda: simulation.processes.last_line(victim))
        if simulation.processes.ended(victim):
            code = simulation.processes.running[victim].returncode
            assert code == -signal.SIGKILL, f"{victim}: exit {code}: {simulation.processes.last_line(victim)}"
            died.append(armed[-1])
            if len(died) == len(points):
                enough = min(enough, completed(simulation) + 1)
            start_victim()
        time.sleep(0.05)
    simulation.processes.stop()
    return died


def updates_by_round(simulation: MqttSimulation) -> dict[int, list[str]]:
    """Who was counted in which round that is closed."""
    with simulation.journal() as journal:
        assert journal is not None
        numbers = range(1, journal.completed() + 1)
        return {number: [update.device for update in journal.updates(number)] for number in numbers}


def assert_equal(found: Mapping[str, Mapping[str, Tensor]], expected: Mapping[str, Mapping[str, Tensor]]) -> None:
    """The same prototypes with the same tensors, bit by bit."""
    assert found.keys() == expected.keys()
    for name, tensors in expected.items():
        assert found[name].keys() == tensors.keys()
        for key, tensor in tensors.items():
            assert np.asarray(found[name][key]).tobytes() == np.asarray(tensor).tobytes(), f"{name} {key}"
