"""Scores from predictors alone."""

import pytest
import torch

from aggregator.fusion.generator.agreement import agreement, generated_latents
from aggregator.fusion.generator.train import Teachers
from models.generator import build_generator


def seed(n: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(n)


def test_the_median_of_three_is_credited() -> None:
    """One class, one latent: logits 1, 2, 30 for z = 1 and -1, -2, -30 for z = -1; the second is the median of both."""
    teachers = Teachers(torch.tensor([[[1.0]], [[2.0]], [[30.0]]]), torch.zeros(3, 1))
    assert agreement(teachers, torch.tensor([[1.0], [-1.0]])).tolist() == [0.0, 1.0, 0.0]


def test_credits_are_shared_by_who_is_in_the_middle_how_often() -> None:
    """Logits 0, 1 + z and 2: at z = 0.5 the second is the median, at z = 9 the third."""
    teachers = Teachers(torch.tensor([[[0.0]], [[1.0]], [[0.0]]]), torch.tensor([[0.0], [1.0], [2.0]]))
    assert agreement(teachers, torch.tensor([[0.5], [9.0]])).tolist() == [0.0, 0.5, 0.5]


def test_noise_and_turned_labels_score_next_to_nothing() -> None:
    rng = seed(1)
    good = torch.randn(3, 4, generator=rng)
    honest = good + 0.1 * torch.randn(7, 3, 4, generator=rng)
    faulty, turned = 20 * torch.randn(2, 3, 4, generator=rng), -good[None]
    teachers = Teachers(torch.cat((honest, faulty, turned)), torch.zeros(10, 3))
    scores = agreement(teachers, torch.randn(200, 4, generator=rng))
    assert float(scores.sum()) == pytest.approx(1.0)
    assert float(scores[:7].sum()) > 0.97


def test_many_latents_are_scored_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = seed(2)
    teachers = Teachers(torch.randn(5, 3, 4, generator=rng), torch.randn(5, 3, generator=rng))
    z = torch.randn(50, 4, generator=rng)
    whole = agreement(teachers, z)
    monkeypatch.setattr("aggregator.fusion.generator.agreement.BLOCK_VALUES", 100)  # 6 latents at a time
    assert torch.equal(agreement(teachers, z), whole)


def test_latents_are_of_the_labels_that_there_are() -> None:
    """A generator whose first layer copies the label: relu(BN(onehot)) tells which labels were drawn."""
    generator = build_generator(3, 3, noise_width=2, hidden=3, generator=seed())
    with torch.no_grad():
        generator.fc1.weight.copy_(torch.tensor([[0.0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]]))
        generator.fc1.bias.zero_()
        generator.fc2.weight.copy_(torch.eye(3))
        generator.fc2.bias.zero_()
    z = generated_latents(generator, torch.tensor([0.5, 0.0, 0.5]), 40, rng=seed())
    drawn = z.argmax(1)
    assert z.shape == (40, 3)
    assert set(drawn.tolist()) == {0, 2}
