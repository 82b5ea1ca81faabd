"""Simulated fleets on the pretend accelerator: every recipe, in one process and in workers, with the CPU's numbers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch

from aggregator.recipes.catalogue import find_recipe, recipe_names
from core.errors import ConfigError, RoundError
from edge_agent.training.params import LocalTraining
from fleet.engines.processes import Processes
from fleet.results.run_file import RoundResult
from fleet.simulation.config import SimulationConfig
from fleet.simulation.simulation import Simulation
from tests import accelerator
from tests.fleet.simulation.test_simulation import toy

torch.set_num_threads(1)
HOW = LocalTraining(lr=0.01, batch_size=8, steps=3, momentum=0.9, clip=1.0, fast="off")
CONFIG = SimulationConfig(
    dataset="toy",
    devices=6,
    prototypes=("mlp:fp32", "cnn:w1"),
    training=HOW,
    alpha=5.0,
    rounds=2,
    latent=8,
    floats="fp32",
)
#: SGD: Adam's first steps are as long as the rate however small a gradient is, and its sign may be rounding.
TAUGHT = {"steps": 4, "check_every": 2, "batch_size": 16, "optimizer": "sgd", "lr": 0.01}
SMALL = {"generator_noise_width": 8, "generator_hidden": 32, "generator_steps": 20}


def of(recipe: str, compute: str, **changes: Any) -> SimulationConfig:
    asked = find_recipe(recipe)
    fusion = {**(TAUGHT if asked.teach is not None else {}), **(SMALL if asked.generation is not None else {})}
    prototypes = ("mlp:fp32", "vgg9:fp32") if asked.average == "matched" else CONFIG.prototypes
    return replace(
        CONFIG, **{"recipe": recipe, "compute": compute, "fusion": fusion, "prototypes": prototypes, **changes}
    )


def rounds(config: SimulationConfig) -> tuple[list[RoundResult], list[dict[str, torch.Tensor]]]:
    accelerator.fresh()
    with Simulation(config, toy()) as simulation:
        results = [simulation.run_round(n) for n in (1, 2)]
        states = [group.state for group in simulation.groups]
        states.append(dict(simulation.memory.tensors))
    assert all(w.device.type == "cpu" for each in states for w in each.values())
    return results, states


def compare(one: tuple[Any, Any], other: tuple[Any, Any]) -> None:
    for here, there in zip(one[1], other[1], strict=True):
        assert here.keys() == there.keys()
        for name, w in here.items():
            torch.testing.assert_close(there[name], w, rtol=1e-5, atol=1e-5)
    for mine, theirs in zip(one[0], other[0], strict=True):
        for name, facts in mine.prototypes.items():
            assert theirs.prototypes[name].accuracy == facts.accuracy
            assert theirs.prototypes[name].train_loss == pytest.approx(facts.train_loss, abs=1e-5)


def check(recipe: str) -> None:
    here = rounds(of(recipe, "cpu"))
    assert not accelerator.used()
    there = rounds(of(recipe, "acc"))
    assert accelerator.used()
    compare(here, there)


def test_a_round_of_every_stage_has_the_numbers_of_the_cpu() -> None:
    check("edgestill")


@pytest.mark.slow  # every recipe, two rounds on each device
@pytest.mark.parametrize("recipe", [name for name in recipe_names() if name != "edgestill"])
def test_every_recipe_has_the_numbers_of_the_cpu(recipe: str) -> None:
    check(recipe)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["w1a1", "w2a2", "w4a4", "w8a8"])
def test_fleets_of_every_precision_have_the_numbers_of_the_cpu(precision: str) -> None:
    prototypes = ("mlp:fp32", f"cnn:{precision}")
    here, there = (rounds(of("feddf", compute, prototypes=prototypes)) for compute in ("cpu", "acc"))
    compare(here, there)


@pytest.mark.slow  # a process of its own, with two more that die
def test_workers_compute_on_the_device_and_lost_ones_are_replaced_from_the_reserve() -> None:
    """In a process of its own: torch refuses to fork one that has trained on a device, as this one has."""
    call = "from tests.accelerated.simulation import lose_workers; lose_workers()"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", call], env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def lose_workers() -> None:
    """The workers are forked before this process scores and fuses on the device: a later fork could not use it."""
    with Simulation(of("feddf", "acc", engine="processes", workers=2), toy()) as simulation:
        engine = simulation.engine
        assert isinstance(engine, Processes)
        results = [simulation.run_round(1)]
        assert accelerator.used(), "this process has fused on it"
        os.kill(engine.pids[0], signal.SIGKILL)
        results.append(simulation.run_round(2))
        there = results, [*(group.state for group in simulation.groups), dict(simulation.memory.tensors)]
        engine._reserve.clear()
        os.kill(engine.pids[0], signal.SIGKILL)
        with pytest.raises(RoundError, match="has used acc, so no worker can be forked; continue in a new one"):
            simulation.run_round(3)
    compare(rounds(of("feddf", "cpu")), there)


def test_workers_are_spread_over_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, dict[str, Any]]] = []

    class Link:
        def send(self, kind: str, facts: dict[str, Any], blobs: object = ()) -> None:
            sent.append((kind, facts))

    class Quiet(Processes):
        def _fork(self) -> Any:
            return type("Worker", (), {"channel": Link(), "end": lambda: None})

    with Simulation(replace(CONFIG, compute="cpu"), toy()) as simulation:
        bench = simulation.engine._bench  # type: ignore[attr-defined]
    bench.device = torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    engine = Quiet(bench, 3)
    engine._ensure()
    assert sent == [("compute", {"device": f"cuda:{n}"}) for n in (0, 1, 0)]
    assert len(engine._reserve) == 3


def test_on_a_machine_with_a_gpu_there_is_a_reserve_for_the_cpu_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's autograd starts a thread for each GPU at the first backward pass, which no fork survives."""
    with Simulation(replace(CONFIG, compute="cpu"), toy()) as simulation:
        bench = simulation.engine._bench  # type: ignore[attr-defined]
    made: list[int] = []
    monkeypatch.setattr(Processes, "_fork", lambda self: made.append(1))
    for accelerators, count in ((0, 2), (1, 4)):
        monkeypatch.setattr("fleet.engines.processes.has_accelerator", lambda there=accelerators: bool(there))
        made.clear()
        Processes(bench, 2)._ensure()
        assert len(made) == count


@pytest.mark.slow
def test_perceptrons_are_not_stacked_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("stacks are written for the CPU")

    monkeypatch.setattr("fleet.engines.work.answers_together", refuse)
    auto = replace(HOW, fast="auto")
    results, _ = rounds(of("fedavg", "acc", training=auto, prototypes=("mlp:fp32",)))
    assert len(results) == 2


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_refused_before_anything_runs() -> None:
    with pytest.raises(ConfigError, match="compute device 'cuda': torch finds no CUDA devices"):
        Simulation(replace(CONFIG, compute="cuda"), toy())


@pytest.mark.slow
def test_mixed_precision_of_devices_and_students_learns_about_the_same() -> None:
    mixed = rounds(of("feddf", "cpu", training=replace(HOW, fast="auto", amp="bf16")))
    plain = rounds(of("feddf", "cpu"))
    for one, other in zip(mixed[1][:2], plain[1][:2], strict=True):
        assert not all(torch.equal(w, other[name]) for name, w in one.items())
        assert float((one["predictor.weight"] - other["predictor.weight"]).abs().max()) < 0.05
