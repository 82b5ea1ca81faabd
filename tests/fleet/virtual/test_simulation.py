"""Fleets in virtual time, on scikit-learn's digits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from aggregator.evaluate import evaluate
from aggregator.fusion.types import Received
from core.errors import ConfigError
from edge_agent.training.params import LocalTraining
from fleet.data import load
from fleet.experiments.feddf.runs import subset
from fleet.results.run_file import RoundResult
from fleet.simulation.config import SimulationConfig
from fleet.simulation.device import Answer
from fleet.simulation.received import Sent
from fleet.simulation.round_message import Artifact
from fleet.simulation.simulation import Simulation
from fleet.virtual.config import VirtualTime
from fleet.virtual.hardware import known_hardware
from fleet.virtual.simulation import VirtualSimulation, _moved
from quant.pack import pack_state
from wire.tensors import encode

BOARDS = ("rpi-4", "rpi-4", "rpi-zero-2w", "jetson-orin-nano")
CONFIG = SimulationConfig(
    dataset="digits",
    devices=4,
    prototypes=("mlp:fp32",),
    training=LocalTraining(lr=0.1, batch_size=16, epochs=1),
    partition="iid",
    rounds=3,
)


def run(rounds: int, boards: tuple[str, ...] = BOARDS, **virtual: Any) -> tuple[VirtualSimulation, list[RoundResult]]:
    config = replace(CONFIG, virtual=VirtualTime(boards=boards, **virtual))
    with VirtualSimulation(config, subset(load("digits"), 200, 100, seed=0)) as simulation:
        return simulation, [simulation.run_round(n) for n in range(1, rounds + 1)]


def test_a_round_takes_as_long_as_its_slowest_board() -> None:
    simulation, (first, second) = run(2)
    boards = first.virtual["boards"]
    slowest = max(simulation._usage(device).seconds for device in simulation.devices)
    assert first.virtual["opened_s"] == 0.0
    assert first.virtual["closed_s"] == second.virtual["opened_s"] == pytest.approx(slowest, abs=1e-3)
    assert simulation.now == pytest.approx(2 * slowest)
    assert boards.keys() == set(BOARDS)
    assert boards["rpi-4"]["train_seconds"] > 2 * known_hardware()["rpi-4"].start_s  # of two boards
    busy = [simulation._usage(device) for device in simulation.devices]
    waited = [
        known_hardware()[board].idle_watts * (slowest - use.seconds) for board, use in zip(BOARDS, busy, strict=True)
    ]
    joules = sum(board["joules"] for board in boards.values())
    assert joules == pytest.approx(sum(use.joules for use in busy) + sum(waited), abs=0.01)
    assert sum(waited) > 0.1, "idle_watts counts"
    assert sum(board["bytes_up"] for board in boards.values()) == pytest.approx(first.bytes_up, rel=0.02)
    assert sum(board["bytes_down"] for board in boards.values()) == first.bytes_down


def test_time_alone_changes_nothing_of_what_is_learned() -> None:
    _, virtual = run(2)
    with Simulation(CONFIG, subset(load("digits"), 200, 100, seed=0)) as simulation:
        real = [simulation.run_round(n) for n in (1, 2)]
    assert [r.prototypes for r in virtual] == [r.prototypes for r in real]


def test_who_is_not_done_at_the_deadline_does_not_count() -> None:
    """A Pi 4 takes 6 s to start training, a Jetson 4."""
    _, (first, second) = run(2, deadline_s=5.5, quorum=0.25)
    assert first.prototypes["mlp:fp32"].devices == 2  # the Jetson, and the Zero, which starts in 4
    assert first.virtual["late"] == ["sim-0", "sim-1"]
    assert first.virtual["closed_s"] == 5.5
    assert set(second.devices) == {"sim-2", "sim-3"}


def test_a_round_without_a_quorum_leaves_the_model_as_it_is() -> None:
    _, (first, second) = run(2, deadline_s=1.0, quorum=1.0)
    assert first.virtual["abandoned"] == "0 of 4 answered, 4 are a quorum"
    assert first.virtual["closed_s"] == 2.0  # extended once
    assert first.prototypes["mlp:fp32"].devices == 0
    assert first.prototypes["mlp:fp32"].accuracy == second.prototypes["mlp:fp32"].accuracy


def test_who_drops_out_is_waited_for_until_the_deadline() -> None:
    _, results = run(6, dropout=0.4, deadline_s=50, quorum=0.25)
    lost = [result.virtual["lost"] for result in results]
    assert 0 < sum(map(len, lost)) < 20
    for result, missing in zip(results, lost, strict=True):
        assert result.prototypes["mlp:fp32"].devices == 4 - len(missing)
        took = result.virtual["closed_s"] - result.virtual["opened_s"]
        assert (took == pytest.approx(50)) == bool(missing)


def test_devices_are_asked_while_their_trace_says_that_they_are_there(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("device,from,to\nsim-0,0,3\nsim-0,100,110\nsim-1,50,200\nsim-2,50,200\nsim-3,50,200\n")
    simulation, (first, second) = run(2, trace=str(path))
    # alone in the first round, sim-0 starts its training in the first window and ends it in the second
    assert first.virtual["invited"] == 1
    assert first.virtual["closed_s"] == pytest.approx(
        100 + simulation._usage(simulation.devices[0]).seconds - 3, abs=0.01
    )
    assert second.virtual["opened_s"] == first.virtual["closed_s"]
    path.write_text("device,from,to\npi-9,0,3\n")
    with pytest.raises(ConfigError, match="no device 'pi-9' in this fleet; it has sim-0 to sim-3"):
        run(1, trace=str(path))


def test_with_a_buffer_the_fast_do_not_wait() -> None:
    simulation, results = run(6, boards=("rpi-4", "jetson-orin-nano", "jetson-orin-nano", "rpi-4"), buffer=2)
    waited = run(6, boards=("rpi-4", "jetson-orin-nano", "jetson-orin-nano", "rpi-4"))[0].now
    times = [result.virtual["closed_s"] for result in results]
    assert times == sorted(times)
    assert simulation.now == pytest.approx(times[-1], abs=1e-3)
    assert times[-1] < waited
    stale = [tau for result in results for tau in result.virtual["staleness"]]
    assert len(stale) == 12
    assert max(stale) >= 1  # a Pi's update was begun before the Jetsons' first
    assert results[-1].prototypes["mlp:fp32"].accuracy > results[0].prototypes["mlp:fp32"].accuracy
    assert len(simulation._versions) <= 1 + max(stale)


def test_a_stale_device_s_own_model_is_the_one_that_it_sent() -> None:
    """Not what it counts as, which is moved towards the model that was current when it came."""
    boards = ("rpi-4", "jetson-orin-nano", "jetson-orin-nano", "rpi-4")
    config = replace(CONFIG, rounds=6, score_devices="every", virtual=VirtualTime(boards=boards, buffer=2))
    stale = 0
    with VirtualSimulation(config, subset(load("digits"), 200, 100, seed=0)) as simulation:
        collect = simulation._collect
        seen: list[Sent] = []

        def kept(*args: Any) -> list[Sent]:
            sent = collect(*args)
            seen[:] = sent
            return sent

        simulation._collect = kept  # type: ignore[method-assign]
        for number in range(1, 7):
            result = simulation.run_round(number)
            for sent in seen:
                assert sent.update is not None
                assert sent.trained is not None
                stale += sent.update is not sent.trained
                model = simulation.groups[0].model
                model.load_state_dict(dict(sent.trained.state()), strict=False)
                score = evaluate(model, simulation.test_x, simulation.test_y)
                assert result.devices[sent.device.id]["whole_accuracy"] == score.accuracy
    assert stale > 0


def test_the_same_seed_gives_the_same_bits_with_a_buffer() -> None:
    (one, _), (two, _) = run(2, buffer=2), run(2, buffer=2)
    assert all(value.equal(two.groups[0].state[name]) for name, value in one.groups[0].state.items())


def test_a_stale_update_is_moved_to_the_current_model_and_counts_less() -> None:
    """w_t + s (w_k - w_v) with w_t = 10, w_v = 2, w_k = 6 and s = 1/2."""
    device = run(0)[0].devices[0]

    def published(value: float) -> dict[str, Artifact]:
        return {"mlp:fp32": Artifact(encode(pack_state({"w": torch.tensor([value])}, floats="fp32")))}

    update = Received(device=device.id, num_examples=3, state=lambda: {"w": torch.tensor([6.0])})
    sent = Sent(device=device, answer=Answer(message=None), update=update)
    moved = _moved(sent, published(2.0), published(10.0), 0.5)
    assert moved is not None
    assert moved.state()["w"].tolist() == [12.0]
    assert moved.num_examples == 3
    assert _moved(sent, published(2.0), published(2.0), 1.0) is update  # a fresh one is what was sent


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"deadline_s": 0.0}, "--deadline 0; give at least 1e-06"),
        ({"quorum": 0.0}, "--quorum 0"),
        ({"buffer": -1}, "--buffer -1; give at least 0"),
        ({"concurrency": 2}, "--concurrency requires --buffer"),
        ({"availability": 2.0}, "availability 2.0"),
        ({"dropout": 1.0}, "drop-out 1.0"),
        ({"boards": ("toaster",)}, "no board 'toaster'"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        VirtualTime(**{"boards": BOARDS, **wrong})


def test_boards_are_as_many_as_devices_and_time_is_real_over_mqtt() -> None:
    with pytest.raises(ConfigError, match="3 boards for 4 devices"):
        replace(CONFIG, virtual=VirtualTime(boards=BOARDS[:3]))
    with pytest.raises(ConfigError, match="virtual time needs --transport memory"):
        replace(CONFIG, virtual=VirtualTime(boards=BOARDS), transport="mqtt")
    with pytest.raises(ConfigError, match="--buffer needs whole models"):
        VirtualSimulation(
            replace(CONFIG, update="predictor", virtual=VirtualTime(boards=BOARDS, buffer=2)), load("digits")
        )


@pytest.mark.parametrize("buffer", [0, 2], ids=["rounds", "buffer"])
def test_devices_that_diverge_are_lost_in_virtual_time_too(buffer: int) -> None:
    training = replace(CONFIG.training, lr=1000.0, epochs=None, steps=40)
    config = replace(CONFIG, training=training, virtual=VirtualTime(boards=BOARDS, buffer=buffer))
    with VirtualSimulation(config, subset(load("digits"), 200, 100, seed=0)) as simulation:
        result = simulation.run_round(1)
    assert len(result.lost) == result.asked == (buffer or 4)
    assert set(result.lost.values()) == {"training diverged: weights are NaN or infinite"}
