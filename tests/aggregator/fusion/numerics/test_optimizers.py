"""Optimizers of students by hand, and the rates of their steps against torch's schedulers."""

import math

import pytest
import torch

from aggregator.fusion.numerics.optimizers import make_optimizer, rate
from aggregator.recipes.catalogue import Distillation
from core.errors import ConfigError


def seed(number: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(number)


def test_sgd_has_momentum_and_weight_decay() -> None:
    """v = 2 + 0.1 * 1 = 2.1, w = 1 - 0.21 = 0.79; v = 0.5 * 2.1 + 2 + 0.079 = 3.129, w = 0.79 - 0.3129."""
    w = [torch.ones(1)]
    optimizer = make_optimizer(w, Distillation(optimizer="sgd", momentum=0.5, weight_decay=0.1))
    for _ in range(2):
        optimizer.step([torch.full((1,), 2.0)], 0.1)
    assert w[0].item() == pytest.approx(0.4771)


def test_adam_divides_the_mean_gradient_by_its_size() -> None:
    """g = 1, then 3. m / (1 - 0.9^2) = 0.39 / 0.19, v / (1 - 0.999^2) = 0.009999 / 0.001999; the first step is lr."""
    w = [torch.zeros(1)]
    optimizer = make_optimizer(w, Distillation(optimizer="adam"))
    optimizer.step([torch.ones(1)], 0.1)
    assert w[0].item() == pytest.approx(-0.1)
    optimizer.step([torch.full((1,), 3.0)], 0.1)
    assert w[0].item() == pytest.approx(-0.1 - 0.1 * (0.39 / 0.19) / math.sqrt(0.009999 / 0.001999), rel=1e-5)


def test_sgd_takes_gradients_that_lie_in_another_order() -> None:
    start, grad = torch.randn(4, 3, 3, 3, generator=seed()), torch.randn(4, 3, 3, 3, generator=seed(1))
    plain, last = [start.clone()], [start.clone().contiguous(memory_format=torch.channels_last)]
    for w in (plain, last):
        optimizer = make_optimizer(w, Distillation(optimizer="sgd", momentum=0.5))
        for _ in range(3):
            optimizer.step([grad.clone()], 0.1)
    torch.testing.assert_close(plain[0], last[0])
    assert not torch.equal(plain[0], start)


def test_the_cosine_starts_at_the_rate_and_halves_it_in_the_middle() -> None:
    cosine = Distillation(lr=0.01)
    assert [rate(cosine, taken, 100, 0) for taken in (0, 50, 100)] == pytest.approx([0.01, 0.005, 0.0])
    assert rate(Distillation(lr=0.01, schedule="constant"), 70, 100, 3) == 0.01


def test_fedrads_rates_are_those_of_its_two_epochs() -> None:
    fedrad = Distillation(schedule="swa", lr=1e-4)
    assert [rate(fedrad, 0, 0, epoch) for epoch in (0, 1)] == pytest.approx([1e-4, 2.2e-4], rel=1e-2)


def test_the_swa_schedule_is_torchs() -> None:
    how = Distillation(schedule="swa", lr=0.1, swa_lr=0.02)
    reference = torch.optim.SGD([torch.zeros(1)], lr=0.1)
    scheduler = torch.optim.swa_utils.SWALR(reference, swa_lr=0.02, anneal_epochs=10)
    for epoch in range(13):
        assert rate(how, 0, 0, epoch) == pytest.approx(reference.param_groups[0]["lr"])
        reference.step()
        scheduler.step()


def test_a_name_that_is_not_known_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"distillation: unknown optimizer 'adamm'; did you mean 'adam'"):
        make_optimizer([torch.zeros(1)], Distillation(optimizer="adamm"))
    with pytest.raises(ConfigError, match=r"distillation: unknown schedule 'cosin'; did you mean 'cosine'"):
        rate(Distillation(schedule="cosin"), 0, 1, 0)
