"""Worker processes come to the models of the inline engine, bit by bit, whatever happens to them on the way."""

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from core.errors import RoundError
from edge_agent.training.params import LocalTraining
from fleet.engines.processes import Processes
from fleet.results.run_file import RoundResult
from fleet.simulation.config import SimulationConfig
from fleet.simulation.simulation import Simulation
from tests.fleet.simulation.test_simulation import CONFIG, SMALL, toy

torch.set_num_threads(1)
SHORT = LocalTraining(lr=0.05, batch_size=8, steps=3)


def rounds(config: SimulationConfig, count: int = 2) -> tuple[list[RoundResult], list[dict[str, torch.Tensor]]]:
    with Simulation(config, toy()) as simulation:
        results = [simulation.run_round(n) for n in range(1, count + 1)]
        return results, [group.state for group in simulation.groups]


def facts(results: list[RoundResult]) -> list[object]:
    """All that a round says but its seconds."""
    return [{k: v for k, v in r.to_json().items() if not k.startswith("seconds")} for r in results]


def same(one: list[dict[str, torch.Tensor]], other: list[dict[str, torch.Tensor]]) -> bool:
    return all(torch.equal(a[name], b[name]) for a, b in zip(one, other, strict=True) for name in a)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"prototypes": ("resnet8:w1", "fedrad_mlp:fp32"), "devices": 2, "training": SHORT},
        {"recipe": "fedgen", "fusion": SMALL, "prototypes": ("mlp:fp32",)},
        {"recipe": "feddistill", "prototypes": ("mlp:fp32",)},
        {"update": "predictor", "attack": "faulty:1,malicious:1"},
        {"recipe": "feddf", "fusion": {"steps": 6, "check_every": 3, "batch_size": 16}, "compute": "cpu"},
    ],
    ids=["fedavg", "channels-last-and-dropout", "fedgen", "feddistill", "kept-extractors-and-attacks", "students"],
)
def test_workers_come_to_the_same_bits(changes: dict[str, object]) -> None:
    config = replace(CONFIG, **changes)
    inline, models = rounds(config)
    spread, theirs = rounds(replace(config, engine="processes", workers=2))
    assert facts(spread) == facts(inline)
    assert same(theirs, models)


def engine_of(simulation: Simulation) -> Processes:
    assert isinstance(simulation.engine, Processes)
    return simulation.engine


def test_workers_stay_from_round_to_round_and_end_with_the_simulation() -> None:
    with Simulation(replace(CONFIG, engine="processes", workers=2), toy()) as simulation:
        simulation.run_round(1)
        pids = engine_of(simulation).pids
        simulation.run_round(2)
        assert engine_of(simulation).pids == pids
        assert len(set(pids)) == 2
        assert os.getpid() not in pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("after", [0, 2, 6], ids=["before-the-round", "in-the-middle", "before-scoring"])
def test_what_a_dead_worker_had_is_trained_again_elsewhere(after: int) -> None:
    _, models = rounds(CONFIG)
    done: list[str] = []
    with Simulation(replace(CONFIG, engine="processes", workers=2), toy()) as simulation:
        simulation.run_round(1)
        engine = engine_of(simulation)
        victim = engine.pids[0]

        def strike(device: str) -> None:
            done.append(device)
            if len(done) == after:
                os.kill(victim, signal.SIGKILL)

        if after == 0:
            os.kill(victim, signal.SIGKILL)
        result = simulation.run_round(2, on_device=strike)
        assert len(done) == len(set(done)) == 6
        assert victim not in engine.pids
        assert all(0 <= p.accuracy <= 1 for p in result.prototypes.values())
        assert same([group.state for group in simulation.groups], models)


def fail(request: dict[str, Any]) -> dict[str, Any]:
    """What a worker is asked for: an answer, an error, or its end."""
    if request["number"] == 1 and request["die"] and not os.path.exists(request["mark"]):
        with open(request["mark"], "w"):
            os.kill(os.getpid(), signal.SIGKILL)
    if request["number"] == 2 and not request["die"]:
        raise RoundError("student 2 is lazy")
    return {"number": request["number"], "pid": os.getpid()}


def test_students_are_spread_over_workers_asked_again_and_heard(tmp_path: Path) -> None:
    with Simulation(replace(CONFIG, engine="processes", workers=2), toy()) as simulation:
        requests = [{"number": n, "die": True, "mark": str(tmp_path / "mark")} for n in range(4)]
        answers = simulation.engine.ask_all(f"{__name__}:fail", requests)
        assert [answer["number"] for answer in answers] == [0, 1, 2, 3]
        assert os.getpid() not in {answer["pid"] for answer in answers}
        with pytest.raises(RoundError, match="student 2 is lazy"):
            simulation.engine.ask_all(f"{__name__}:fail", [{**r, "die": False} for r in requests])


def test_a_device_that_kills_every_worker_is_named() -> None:
    with Simulation(replace(CONFIG, engine="processes", workers=2), toy()) as simulation:
        engine = engine_of(simulation)
        fatal = simulation.devices[3]
        object.__setattr__(fatal, "rows", Fatal())  # forked workers have it too
        with pytest.raises(RoundError, match=r"3 worker processes died while training sim-3; is there enough memory"):
            simulation.run_round(1)
        assert engine.pids == []


class Fatal:
    """Rows of a dataset that end the process that asks for them, as the kernel does when memory is out."""

    def __array__(self, *_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def test_an_error_of_a_device_is_told_in_its_words() -> None:
    with Simulation(replace(CONFIG, engine="processes", workers=1), toy()) as simulation:
        object.__setattr__(simulation.devices[0], "rows", simulation.devices[0].rows[:0])
        with pytest.raises(RoundError, match="local training: the device has no samples"):
            simulation.run_round(1)


def test_a_model_that_diverged_is_not_sent_by_a_worker_either() -> None:
    training = replace(CONFIG.training, lr=1000.0, momentum=0.0)
    config = replace(CONFIG, prototypes=("mlp:fp32",), training=training, engine="processes", workers=2)
    (result,), _ = rounds(config, 1)
    assert result.prototypes["mlp:fp32"].devices == 0
