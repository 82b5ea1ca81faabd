"""Batches of devices: who trains together, and that it does not show."""

import os
import signal
from dataclasses import replace

import pytest
import torch

from core.errors import ConfigError
from fleet.engines.processes import Processes
from fleet.fast import grouping as together
from fleet.simulation.round_message import News
from fleet.simulation.simulation import Simulation
from tests.fleet.engines.test_processes import facts, rounds, same
from tests.fleet.simulation.test_simulation import CONFIG, toy

torch.set_num_threads(1)
MLPS = replace(CONFIG, prototypes=("mlp:fp32", "mlp:w1"), devices=8)


def sizes(simulation: Simulation, *, at_most: int = 0, workers: int = 1, **news: object) -> list[int]:
    group = simulation.groups[0]
    told = News(round_number=1, published={}, **news)
    return [len(b) for b in together.in_batches(group.devices, group.model, told, at_most=at_most, workers=workers)]


def test_perceptrons_train_together_as_many_as_pay_and_every_worker_has_some() -> None:
    with Simulation(replace(MLPS, devices=40), toy(400)) as simulation:
        assert sizes(simulation) == [10, 10]  # 20 of this prototype, 16 at most
        assert sizes(simulation, workers=4) == [5] * 4
        assert sizes(simulation, at_most=3) == [2, 3, 3, 3, 3, 3, 3]
        assert sizes(simulation, at_most=1) == [1] * 20
        news = News(round_number=1, published={})
        assert together.in_batches([], simulation.groups[0].model, news, at_most=0, workers=2) == []


def test_devices_with_a_start_or_an_objective_of_their_own_train_alone() -> None:
    with Simulation(MLPS, toy()) as simulation:
        assert sizes(simulation) == [4]
        assert sizes(simulation, update="predictor") == [1] * 4
        assert sizes(simulation, extra={"label_logits": 1.0}) == [1] * 4
    with Simulation(replace(CONFIG, prototypes=("cnn:fp32",)), toy()) as convolutions:
        assert set(sizes(convolutions, at_most=4)) == {1}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"attack": "faulty:1,malicious:1,sign-flip:1"},
        {"partition": "dirichlet", "alpha": 0.3},
        {"fusion": {"personal": True}, "score_devices": "every"},
    ],
    ids=["plain", "attacks", "uneven", "personal"],
)
def test_a_batch_comes_to_the_bits_of_devices_alone(changes: dict[str, object]) -> None:
    config = replace(MLPS, **changes)
    alone, models = rounds(replace(config, batch_devices=1))
    batched, theirs = rounds(replace(config, batch_devices=0))
    assert facts(batched) == facts(alone)
    assert same(theirs, models)
    spread, others = rounds(replace(config, batch_devices=2, engine="processes", workers=2))
    assert facts(spread) == facts(alone)
    assert same(others, models)


def test_what_is_left_of_a_dead_workers_batch_is_trained_again() -> None:
    _, models = rounds(MLPS)
    with Simulation(replace(MLPS, engine="processes", workers=1), toy()) as simulation:
        assert isinstance(simulation.engine, Processes)
        seen: list[str] = []

        def kill_once(device: str) -> None:
            seen.append(device)
            if len(seen) == 2:
                os.kill(simulation.engine.pids[0], signal.SIGKILL)  # type: ignore[attr-defined]

        for number in (1, 2):
            simulation.run_round(number, on_device=kill_once)
        assert len(seen) == 16
        assert same([group.state for group in simulation.groups], models)


def test_a_negative_number_of_devices_is_refused() -> None:
    with pytest.raises(ConfigError, match="--batch-devices -1; give at least 0"):
        replace(MLPS, batch_devices=-1)
