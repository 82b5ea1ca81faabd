"""Hooks of FedRAD's experiment: how long devices train and by which loss, their teachers, how models are scored."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from aggregator.evaluate import Counted
from aggregator.fusion.teachers.logits import StateTeacher, Teacher
from aggregator.fusion.types import Received
from edge_agent.training.params import LocalTraining
from fleet.fast.grouping import in_batches
from fleet.simulation.config import SimulationConfig
from fleet.simulation.hooks import Hooks
from fleet.simulation.round_message import Artifact, News
from fleet.simulation.simulation import Simulation
from models.spec import PrototypeSpec
from tests.fleet.simulation.test_simulation import toy

TRAINING = LocalTraining(lr=0.05, batch_size=8, steps=2)
CONFIG = SimulationConfig(
    dataset="toy", devices=4, prototypes=("mlp:fp32",), training=TRAINING, alpha=5.0, rounds=2, latent=8
)


def states(config: SimulationConfig, hooks: Hooks, rounds: int = 1) -> dict[str, Tensor]:
    """Of the fused model."""
    with Simulation(config, toy(), hooks=hooks) as simulation:
        for number in range(1, rounds + 1):
            simulation.run_round(number)
        return simulation.groups[0].state


def equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return all(torch.equal(a[name], w) for name, w in b.items())


def test_training_says_how_devices_train_in_a_round() -> None:
    def longer(how: LocalTraining, number: int) -> LocalTraining:
        return replace(how, steps=5) if number == 1 else how

    five = replace(CONFIG, training=replace(TRAINING, steps=5))
    assert equal(states(CONFIG, Hooks(training=longer)), states(five, Hooks()))
    assert not equal(states(CONFIG, Hooks(training=longer), rounds=2), states(five, Hooks(), rounds=2))


@pytest.mark.parametrize("engine", ["inline", "processes"])
def test_loss_takes_the_place_of_cross_entropy(engine: str) -> None:
    config = replace(CONFIG, engine=engine, workers=2)
    doubled = states(config, Hooks(loss=lambda logits, y: 2 * F.cross_entropy(logits, y)))
    twice = states(replace(config, training=replace(TRAINING, lr=0.1)), Hooks())
    for name, w in twice.items():
        torch.testing.assert_close(doubled[name], w, rtol=1e-4, atol=1e-6)
    assert not equal(doubled, states(config, Hooks()))


def test_devices_with_a_loss_of_their_own_are_not_stacked() -> None:
    sizes = []
    for hooks in (Hooks(), Hooks(loss=F.cross_entropy)):
        with Simulation(CONFIG, toy(), hooks=hooks) as simulation:
            (group,), news = simulation.groups, News(round_number=1, published={"mlp:fp32": Artifact(b"")})
            made = in_batches(simulation.devices, group.model, news, at_most=0, workers=1)
            sizes.append([len(batch) for batch in made])
    assert sizes == [[4], [1, 1, 1, 1]]


def test_teacher_makes_the_teachers_of_a_round() -> None:
    asked: list[tuple[str, int]] = []

    def frozen(spec: PrototypeSpec, update: Received, number: int) -> Teacher:
        asked.append((update.device, number))
        return StateTeacher(device=update.device, spec=spec, state=update.state)

    config = replace(CONFIG, recipe="feddf", fusion={"steps": 2}, source="auto", validation_size=0)
    assert equal(states(config, Hooks(teacher=frozen), rounds=2), states(config, Hooks(), rounds=2))
    assert asked == [(f"sim-{i}", number) for number in (1, 2) for i in range(4)]


def test_count_scores_the_models_of_a_round() -> None:
    def all_right(model: object, x: Tensor, y: Tensor) -> list[Counted]:
        return [(torch.bincount(y, minlength=3).tolist(), 0.5 * len(y))]

    with Simulation(CONFIG, toy(), hooks=Hooks(count=all_right)) as simulation:
        result = simulation.run_round(1).prototypes["mlp:fp32"]
    assert (result.accuracy, result.loss) == (1.0, 0.5)
