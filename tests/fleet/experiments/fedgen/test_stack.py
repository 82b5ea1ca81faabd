"""Stacked CNNs are the CNNs that devices train, one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from edge_agent.objectives.feddistill import DistilledObjective, LabelLogits
from edge_agent.objectives.fedgen import GeneratedObjective
from edge_agent.objectives.fedgen_weights import PAPER, REFERENCE, Guidance
from edge_agent.training.params import LocalTraining
from edge_agent.training.sgd import Objective, train_local
from fleet.experiments.fedgen.losses import cross_entropy, distilled, draw_round, guided
from fleet.experiments.fedgen.stack import Pull, Stack
from models.build import build
from models.generator import build_generator
from models.latents import Latents, prototype_of
from models.spec import PrototypeSpec, parse_prototype
from models.split import Prototype
from wire.messages import ModelHeader

SPEC = PrototypeSpec(*parse_prototype("cnn:fp32"), (1, 9, 8), 3, 32)  # an odd height, too
USERS, STEPS, BATCH, LR = 2, 3, 4, 0.1
X = torch.randn(USERS, STEPS * BATCH, 1, 9, 8, generator=torch.Generator().manual_seed(0))
Y = torch.randint(3, (USERS, STEPS * BATCH), generator=torch.Generator().manual_seed(1))


def fresh(user: int) -> Prototype:
    return build(SPEC, generator=torch.Generator().manual_seed(user))


def order(user: int) -> Tensor:
    """The order in which `train_local` takes the samples."""
    return torch.randperm(STEPS * BATCH, generator=torch.Generator().manual_seed(user))


def rows(step: int) -> tuple[Tensor, Tensor]:
    """Images (K, B, ...) and labels (K, B) of a step, in that order."""
    at = [order(user)[step * BATCH : (step + 1) * BATCH] for user in range(USERS)]
    return torch.stack([X[user, at[user]] for user in range(USERS)]), torch.stack([Y[u, at[u]] for u in range(USERS)])


def alone(user: int, objective: Objective | None = None, **how: float) -> dict[str, Tensor]:
    """The model of a user after a round as a device trains it."""
    model = fresh(user)
    training = LocalTraining(lr=LR, batch_size=BATCH, steps=STEPS, **how)  # type: ignore[arg-type]
    train_local(model, X[user], Y[user], training, generator=torch.Generator().manual_seed(user), objective=objective)
    return model.state_dict()


def stacked() -> Stack:
    return Stack.of([fresh(user).state_dict() for user in range(USERS)])


def check(stack: Stack, user: int, state: dict[str, Tensor]) -> None:
    for name, tensor in stack.tensors.items():
        torch.testing.assert_close(tensor[user], state[name], rtol=1e-4, atol=1e-5, msg=name)


RATES = torch.full((USERS,), LR)


def test_plain_training_is_that_of_every_device_by_itself() -> None:
    stack = stacked()
    for step in range(STEPS):
        x, y = rows(step)
        stack.step(x, cross_entropy(y), lr=RATES)
    for user in range(USERS):
        state = alone(user)
        assert not torch.allclose(state["predictor.weight"], fresh(user).state_dict()["predictor.weight"], atol=1e-3)
        check(stack, user, state)


def test_every_model_has_its_own_learning_rate() -> None:
    stack = stacked()
    for step in range(STEPS):
        x, y = rows(step)
        stack.step(x, cross_entropy(y), lr=torch.tensor([LR, 0.0]))
    check(stack, 0, alone(0))
    assert torch.equal(stack.tensors["predictor.weight"][1], fresh(1).state_dict()["predictor.weight"])


def test_fedprox_pulls_towards_what_was_received() -> None:
    received = fresh(0).state_dict()
    stack = Stack.of([received])
    for step in range(STEPS):
        x, y = rows(step)
        stack.step(x[:1], cross_entropy(y[:1]), lr=RATES[:1], pull=Pull(received, 0.5, 0.01))
    state = alone(0, prox=0.5, weight_decay=0.01)
    state["extractor.body.conv1.bias"] = received["extractor.body.conv1.bias"]  # decays alone, and is without effect
    state["extractor.body.conv2.bias"] = received["extractor.body.conv2.bias"]
    for at in ("norm1", "norm2"):
        name = f"extractor.body.{at}.running_mean"  # has that bias in it
        stack.tensors[name], state[name] = torch.zeros(1, 1), torch.zeros(1)
    check(stack, 0, state)


@pytest.mark.parametrize("how", [PAPER, REFERENCE])
def test_guided_training_is_that_of_every_device_with_the_same_draws(how: Guidance) -> None:
    received, number = latents(), 3
    y = torch.stack([rows(step)[1] for step in range(STEPS)])
    made = draw_round(received, how, number, y, [np.random.default_rng(user) for user in range(USERS)])
    stack = stacked()
    for step in range(STEPS):
        x, labels = rows(step)
        stack.step(x, guided(labels, made.labels[step], how, number), lr=RATES, generated=made.z[step])
    for user in range(USERS):
        objective = GeneratedObjective(received, how, number, rng=np.random.default_rng(user))
        check(stack, user, alone(user, objective))


def test_distilled_training_is_that_of_every_device() -> None:
    teacher = torch.randn(3, 3, generator=torch.Generator().manual_seed(5))
    stack = stacked()
    for step in range(STEPS):
        x, y = rows(step)
        stack.step(x, distilled(y, teacher, 0.5), lr=RATES)
    for user in range(USERS):
        check(stack, user, alone(user, DistilledObjective(LabelLogits.fresh(3), teacher, weight=0.5)))


def test_scores_use_running_statistics() -> None:
    stack = stacked()
    x, y = rows(0)
    stack.step(x, cross_entropy(y), lr=RATES)
    for user in range(USERS):
        model = fresh(user)
        model.load_state_dict({name: tensor[user] for name, tensor in stack.tensors.items()}, strict=False)
        with torch.no_grad():
            torch.testing.assert_close(stack.logits(x)[user].T, model.eval()(x[user]), rtol=1e-4, atol=1e-5)


def latents() -> Latents:
    net = build_generator(3, 32, noise="reference", hidden=16, generator=torch.Generator().manual_seed(2))
    tensors = {name: t.detach().numpy() for name, t in net.state_dict().items()}
    tensors["labels"] = np.full(3, 1 / 3, np.float32)
    header = ModelHeader(
        round=1, prototype=prototype_of("reference"), input_shape=(32,), classes=3, latent=32, recipe="fedgen"
    )
    return Latents.from_tensors(tensors, header)
