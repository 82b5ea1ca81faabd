"""Personal models in simulated fleets: they are what is scored, and nobody else notices them."""

from dataclasses import replace

import pytest
import torch

from aggregator.evaluate import evaluate
from fleet.results.run_file import RoundResult
from fleet.simulation.config import SimulationConfig
from fleet.simulation.simulation import Simulation
from fleet.virtual.config import VirtualTime
from fleet.virtual.simulation import VirtualSimulation
from models.build import build
from quant.pack import load_packed
from tests.fleet.simulation.test_simulation import CONFIG, toy
from wire.tensors import decode

PERSONAL = {"personal": True}


def run(config: SimulationConfig) -> tuple[Simulation, list[RoundResult]]:
    simulation = Simulation(config, toy())
    return simulation, [simulation.run_round(n) for n in range(1, config.rounds + 1)]


@pytest.mark.parametrize("changes", [{}, {"attack": "malicious:1", "alpha": 0.3}], ids=["plain", "attack"])
def test_fused_models_and_bytes_are_the_same_with_and_without(changes: dict) -> None:
    config = replace(CONFIG, score_devices="never", **changes)
    (plain, one), (personal, two) = run(config), run(replace(config, fusion=PERSONAL))
    for a, b in zip(plain.groups, personal.groups, strict=True):
        assert all(torch.equal(w, b.state[name]) for name, w in a.state.items())
    for a, b in zip(one, two, strict=True):
        assert {**a.to_json(), "seconds": 0, "seconds_by": 0} == {**b.to_json(), "seconds": 0, "seconds_by": 0}


def test_the_personal_model_is_the_one_that_is_scored_at_its_precision() -> None:
    config = replace(CONFIG, prototypes=("cnn:w1",), alpha=0.3, rounds=3, fusion=PERSONAL)
    simulation, results = run(config)
    device = simulation.devices[2]
    model = build(simulation.groups[0].model.spec)
    load_packed(model, decode(device.kept["personal"]))
    score = evaluate(model, simulation.test_x, simulation.test_y)
    assert results[-1].devices[device.id]["whole_accuracy"] == score.accuracy


def test_in_the_first_round_it_is_the_update_and_later_another_model() -> None:
    config = replace(CONFIG, prototypes=("mlp:fp32",), alpha=0.1, rounds=4, score_devices="every")
    (_, plain), (_, personal) = run(config), run(replace(config, fusion=PERSONAL))

    def own(result: RoundResult) -> list[float]:
        return [facts["own_accuracy"] for facts in result.devices.values()]

    assert own(plain[0]) == own(personal[0])
    assert own(personal[-1]) != own(plain[-1])


def test_boards_in_virtual_time_train_twice_as_long() -> None:
    boards = VirtualTime(boards=("rpi-4",) * 6)
    config = replace(CONFIG, prototypes=("mlp:fp32",), rounds=1, virtual=boards)
    spent = []
    for fusion in ({}, {**PERSONAL, "personal_weight": 0.0}, PERSONAL):  # without and with a teacher
        with VirtualSimulation(replace(config, fusion=fusion), toy()) as simulation:
            simulation.run_round(1)
            start = simulation.hardware[0].start_s
            spent.append(simulation._usage(simulation.devices[0]).train_seconds - start)
    assert spent[1] == pytest.approx(2 * spent[0])
    assert 2 * spent[0] < spent[2] < 2.5 * spent[0]
