"""Which trainer a model's steps take."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edge_agent.training.fast.fused_step import FusedStep
from edge_agent.training.fast.perceptron import Chain
from edge_agent.training.fast.select import fast_trainer
from edge_agent.training.params import LocalTraining
from edge_agent.training.trainer import Objective, Trainer

X, Y = torch.zeros(4, 4), torch.zeros(4, dtype=torch.int64)
PLAIN = LocalTraining(lr=0.1, batch_size=4, steps=1)
WIDE = 1200  # a layer that is worth a step of its own


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


def wide() -> nn.Module:
    return nn.Sequential(nn.Linear(4, WIDE), nn.Tanh(), nn.Linear(WIDE, WIDE), nn.Tanh(), nn.Linear(WIDE, 2))


def taken(model: nn.Module, x: Tensor = X, y: Tensor = Y, how: LocalTraining = PLAIN, **other: object) -> object:
    facts: dict = {"loss_fn": F.cross_entropy, "objective": None, **other}
    trainer: Trainer | None = fast_trainer(model, x, y, how, **facts)
    return type(trainer)


def test_perceptrons_are_computed_by_hand_with_any_loss_of_the_logits() -> None:
    assert taken(perceptron()) is Chain
    assert taken(perceptron(), loss_fn=lambda z, y: F.cross_entropy(z, y, label_smoothing=0.1)) is Chain


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (X.double(), Y),
        (X, F.one_hot(Y, 2).float()),
    ],
    ids=["double", "soft labels"],
)
def test_doubles_and_soft_labels_are_left_to_autograd(x: Tensor, y: Tensor) -> None:
    assert taken(perceptron(), x, y) is type(None)


def test_a_large_layer_takes_its_step_within_the_backward_pass_and_any_loss() -> None:
    assert taken(wide()) is FusedStep
    assert taken(wide(), loss_fn=lambda z, y: z.square().mean()) is FusedStep
    momentum = LocalTraining(lr=0.1, batch_size=4, steps=1, momentum=0.9)
    assert taken(wide(), how=momentum) is type(None)


@pytest.mark.parametrize("make", [perceptron, wide])
def test_an_objective_of_its_own_is_left_to_autograd(make: object) -> None:
    objective: Objective = lambda model, x, y: model(x).sum()  # noqa: E731
    assert taken(make(), objective=objective) is type(None)
