"""Scores worked by hand."""

import math

import pytest
import torch
from torch import nn

from aggregator.evaluate import evaluate, mean_train_loss, score_state
from models.build import build
from models.spec import PrototypeSpec, parse_prototype
from quant.layers import effective_weight


class Fixed(nn.Module):
    """Logits (log 3, 0) whatever comes in: class 0 with probability 3/4."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tensor([[math.log(3.0), 0.0]]).expand(len(x), 2)


@pytest.mark.parametrize("batch_size", [1, 3, 100])
def test_accuracy_and_loss_are_means_over_all_samples(batch_size: int) -> None:
    score = evaluate(Fixed(), torch.zeros(4, 1), torch.tensor([0, 0, 0, 1]), batch_size=batch_size)
    assert score.accuracy == 0.75
    assert score.loss == pytest.approx(-(3 * math.log(0.75) + math.log(0.25)) / 4)
    assert score.correct == (3, 0)  # of label 0 and of label 1


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_of_the_model_is_restored(training: bool) -> None:
    model = nn.Sequential(Fixed(), nn.Dropout(0.9)).train(training)
    assert evaluate(model, torch.zeros(2, 1), torch.tensor([0, 0])).accuracy == 1.0  # dropout is off
    assert model.training is training


def test_train_losses_are_averaged_by_examples_over_those_that_report_one() -> None:
    assert mean_train_loss([(1.0, 1), (4.0, 3)]) == pytest.approx(13 / 4)
    assert mean_train_loss([(1.0, 1), (math.nan, 2**53), (math.inf, 5)]) == 1.0
    assert mean_train_loss([(1e308, 2**53), (1e308, 2**53)]) == pytest.approx(1e308), "no overflow on the way"
    assert mean_train_loss([(math.nan, 3)]) is None
    assert mean_train_loss([]) is None


def linear_mlp(precision: str) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """A prototype and its state; only the predictor tells samples apart."""
    spec = PrototypeSpec(*parse_prototype(f"mlp:{precision}"), (6,), 3, 4)
    model = build(spec, generator=torch.Generator().manual_seed(3))
    return model, {name: value.clone() for name, value in model.state_dict().items()}


def test_a_quantized_prototype_is_scored_at_its_own_precision_with_that_of_float_weights_beside_it() -> None:
    model, state = linear_mlp("w1")
    x = torch.randn(64, 6, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        own = model.eval()(x)
    scores = score_state(model, state, x, own.argmax(1))
    assert scores["accuracy"] == 1.0, "the labels are what a board says"
    assert scores["loss"] == pytest.approx(nn.functional.cross_entropy(own, own.argmax(1)).item())
    assert scores["accuracy_float"] < 1.0
    assert not torch.equal(effective_weight(model.predictor), model.predictor.weight), "quantizers are back in place"


def test_a_float_prototype_has_one_accuracy_and_that_of_what_is_published() -> None:
    model, state = linear_mlp("fp32")
    x, y = torch.randn(64, 6, generator=torch.Generator().manual_seed(0)), torch.zeros(64, dtype=torch.long)
    full, halves = score_state(model, state, x, y), score_state(model, state, x, y, floats="fp16")
    assert full.keys() == halves.keys() == {"accuracy", "loss"}
    assert full["loss"] != halves["loss"], "float16 on the wire is what a board has"
