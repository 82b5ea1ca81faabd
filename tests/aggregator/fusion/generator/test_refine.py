"""Predictors taught by medians on generated latents."""

from __future__ import annotations

import pytest
import torch

from aggregator.fusion.generator.refine import refine_predictor
from aggregator.fusion.generator.train import Teachers
from aggregator.fusion.teachers.combine import median_logits
from models.generator import build_generator

LABELS = torch.full((3,), 1 / 3)


def seed(n: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(n)


GENERATOR = build_generator(3, 4, noise_width=4, hidden=16, generator=seed(5)).eval()
RIGHT = torch.randn(3, 4, generator=seed(1))
TEACHERS = Teachers(torch.stack([RIGHT, RIGHT, RIGHT, 50 * torch.randn(3, 4, generator=seed(2))]), torch.zeros(4, 3))
START = {
    "predictor.weight": RIGHT + 0.3 * torch.randn(3, 4, generator=seed(3)),
    "predictor.bias": torch.tensor([0.3, 0.0, -0.3]),
    "extractor.w": torch.ones(2),
}


def away(state: dict[str, torch.Tensor]) -> float:
    """KL to what the median says, on other latents."""
    z = GENERATOR.sample(torch.arange(3).repeat(100), generator=seed(9))
    said = (z @ state["predictor.weight"].T + state["predictor.bias"]).log_softmax(1)
    wanted = median_logits(TEACHERS.logits(z)).softmax(1)
    return float(torch.nn.functional.kl_div(said, wanted, reduction="batchmean"))


def test_a_predictor_comes_nearer_to_the_median_whatever_one_of_four_says() -> None:
    refined = refine_predictor(START, TEACHERS, GENERATOR, LABELS, 200, rng=seed(4))
    assert away(refined) < 0.5 * away(START)
    assert torch.equal(refined["extractor.w"], START["extractor.w"])


def test_the_start_is_left_as_it_was_and_the_same_seed_gives_the_same() -> None:
    before = START["predictor.weight"].clone()
    one, two = (refine_predictor(START, TEACHERS, GENERATOR, LABELS, 3, rng=seed(4)) for _ in range(2))
    assert torch.equal(START["predictor.weight"], before)
    assert torch.equal(one["predictor.weight"], two["predictor.weight"])


def test_the_first_step_is_adams_step_along_the_sign_of_the_gradient() -> None:
    refined = refine_predictor(START, TEACHERS, GENERATOR, LABELS, 1, rng=seed(4))
    moved = (refined["predictor.bias"] - START["predictor.bias"]).abs()
    assert moved.tolist() == pytest.approx([1e-3] * 3, rel=1e-2)
