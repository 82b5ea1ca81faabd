"""The ways of FedRAD's code, as hooks."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch.nn import functional as F

from aggregator.evaluate import count
from aggregator.fusion.teachers.logits import CPU, all_logits
from aggregator.fusion.types import Received
from edge_agent.training.fast.perceptron import chain_of
from fleet.experiments.fedrad.authors import count_with_dropout, dropout_teacher, dropping, softmax_first
from models.build import build
from models.seeding import torch_rng
from models.spec import PrototypeSpec, parse_prototype
from models.split import Prototype

SPEC = PrototypeSpec(*parse_prototype("fedrad_mlp:fp32"), (4,), 3)


def model(seed: int = 0) -> Prototype:
    return build(SPEC, generator=torch_rng(seed, "w"))


def inputs(n: int = 5) -> torch.Tensor:
    return torch.randn(n, 4, generator=torch_rng(0, "x"))


def received(device: str = "a") -> Received:
    return Received(device=device, num_examples=10, state=partial(dict, model().state_dict()))


def test_the_loss_is_bounded() -> None:
    """Of ten classes: ln(e + 9) - 1 for an answer that is right and sure, ln(e + 9) for one that is sure and wrong."""
    logits = 100 * torch.eye(10)[:2]
    assert softmax_first(logits, torch.tensor([0, 1])).item() == pytest.approx(1.4612, abs=1e-4)
    assert softmax_first(logits, torch.tensor([1, 0])).item() == pytest.approx(2.4612, abs=1e-4)


def test_half_of_the_elements_are_dropped_and_afterwards_none() -> None:
    dropped, net, x = [], model().eval(), inputs(400)
    net.predictor.register_forward_pre_hook(lambda _, given: dropped.append((given[0] == 0).double().mean().item()))
    before = net(x)
    with dropping(net, torch_rng(0, "r")):
        assert not torch.equal(net(x), before)
    assert torch.equal(net(x), before)
    assert dropped == [0, pytest.approx(0.5, abs=0.02), 0]
    assert chain_of(model()) is not None


def test_a_teacher_answers_with_dropout_on() -> None:
    x = inputs()
    answers = [dropout_teacher(SPEC, received(), number, seed=0).open(CPU)(x) for number in (1, 1, 2)]
    assert torch.equal(answers[0], answers[1])
    assert not torch.equal(answers[0], answers[2])
    assert not torch.equal(answers[0], model().eval()(x))
    assert not answers[0].requires_grad


def test_teachers_answer_the_same_side_by_side() -> None:
    x, state = inputs(300), torch.get_rng_state()
    made = [
        list(all_logits([dropout_teacher(SPEC, received(f"d{n}"), 1, seed=0) for n in range(6)], x, workers=workers))
        for workers in (1, 4)
    ]
    assert all(torch.equal(a, b) for a, b in zip(*made, strict=True))
    assert not torch.equal(made[0][0], made[0][1])  # each drops elements of its own
    assert torch.equal(torch.get_rng_state(), state)


def test_scores_are_taken_with_dropout_on() -> None:
    net, x = model(), inputs(50)
    y = net.eval()(x).argmax(1)
    (sure,), (noisy,) = count(net, x, y), count_with_dropout(net, x, y, seed=0)
    assert sum(sure[0]) == 50
    assert sum(noisy[0]) < 50
    assert [noisy] == count_with_dropout(net, x, y, seed=0)
    assert noisy[1] != F.cross_entropy(net(x), y, reduction="sum").item()
