"""One student: a step by hand, at its own precision or as floats, and the mean of several."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from aggregator.fusion.students.student import Learner, MeanState
from aggregator.recipes.catalogue import Distillation
from core.errors import ModelError
from models.build import build
from models.seeding import torch_rng
from models.spec import PrototypeSpec, parse_prototype
from quant.layers import weights_as_they_are

CPU = torch.device("cpu")
X = torch.randn(6, 1, 4, 4, generator=torch.Generator().manual_seed(0))
TARGET = torch.softmax(torch.randn(6, 3, generator=torch.Generator().manual_seed(1)), 1)


def learner(prototype: str = "mlp:fp32", **how: object) -> Learner:
    spec = PrototypeSpec(*parse_prototype(prototype), (1, 4, 4), 3, 6)
    model = build(spec, generator=torch_rng(0, "student"))
    start = {n: w.clone() for n, w in model.state_dict().items() if not n.endswith("num_batches_tracked")}
    return Learner(model, start, Distillation(**{"optimizer": "sgd", "clip": 0.0, **how}), CPU)


@pytest.mark.parametrize("student", ["own", "float"])
def test_a_step_follows_the_gradient_at_the_precision_that_it_learns_at(student: str) -> None:
    """w <- w - eta grad L at Q(w), or at w itself; T divides both sides' logits."""
    mine, other = learner("mlp:w1", student=student, temperature=2.0), learner("mlp:w1").model
    if student == "float":
        with weights_as_they_are(other):
            logits = other(X)
    else:
        logits = other(X)
    F.kl_div(F.log_softmax(logits / 2.0, 1), TARGET, reduction="batchmean").backward()
    mine.step(X, TARGET, lr=0.5)
    for (name, moved), before in zip(mine.model.named_parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(moved.detach(), (before - 0.5 * before.grad).detach(), msg=name)


def test_logits_are_those_of_evaluation_and_training_goes_on() -> None:
    mine = learner("mlp:w1")
    with torch.no_grad():
        expected = mine.model.eval()(X)
    mine.model.train()
    assert torch.equal(mine.logits(X), expected)
    assert mine.model.training


def test_a_state_is_a_copy_that_can_be_loaded_again() -> None:
    mine = learner()
    before = mine.state()
    assert before.keys() == set(mine.names)
    mine.step(X, TARGET, lr=1.0)
    after = mine.state()
    assert not torch.equal(before["predictor.weight"], after["predictor.weight"])
    mine.load(before)
    assert all(torch.equal(value, before[name]) for name, value in mine.state().items())


def test_a_start_with_a_tensor_too_many_is_named() -> None:
    model = learner().model
    start = {**model.state_dict(), "predictor.extra": torch.zeros(1)}
    with pytest.raises(
        ModelError, match=r"mlp:fp32: the initial state has a missing or unexpected tensor: 'predictor\.extra'"
    ):
        Learner(model, start, Distillation(), CPU)


def test_the_mean_of_students_is_summed_in_double_precision() -> None:
    mean = MeanState()
    first = {"w": torch.tensor([2.0**24, 1.0])}
    for state in (first, {"w": torch.tensor([1.0, 2.0])}, {"w": torch.tensor([1.0, 6.0])}):
        mean.add(state)
    result = mean.result()["w"]
    assert result.dtype == torch.float32
    assert result.tolist() == [torch.tensor((2.0**24 + 2) / 3).item(), 3.0]
    assert first["w"].tolist() == [2.0**24, 1.0]  # the students themselves are not summed into
