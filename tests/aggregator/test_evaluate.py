"""Scores worked by hand."""

import math

import pytest
import torch
from torch import nn

from aggregator.evaluate import evaluate, mean_train_loss


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
