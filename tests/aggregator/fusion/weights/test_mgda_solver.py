"""Lambda, worked by hand."""

import pytest
import torch

from aggregator.fusion.weights.mgda_solver import (
    Pace,
    common_direction,
    cut_off,
    lambda_step,
    lambda_steps_in_turn,
    nearest_share,
)


def t(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_a_step_lowers_by_distance() -> None:
    assert lambda_step(t(1, 3, 20), t(1, 2, 1), 0.1).tolist() == pytest.approx([0.95, 1.85, 0.0])


def test_steps_in_turn_are_those_of_the_reference() -> None:
    # d = (3, 1): gradient 3 (1 - 1/2), -3 / 2; lambda 0.85, 1.15. Then the second is the maximum: gradient 0,
    # momentum alone: 0.5 * 1.5 = 0.75
    assert lambda_steps_in_turn(t(3, 1), t(1, 1), 0.1).tolist() == pytest.approx([0.775, 1.225])
    assert lambda_steps_in_turn(t(3, 1e9), t(1, 1), 0.1).tolist() == pytest.approx([0.775, 1.225])  # the last escapes


def test_steps_in_turn_follow_the_gradient_that_autograd_finds() -> None:
    distances, lr = t(0.3, 2.0, 1.1, 0.7), 0.2
    weights, velocity = torch.ones_like(distances), torch.zeros_like(distances)
    for i, d in enumerate(distances):
        weights.requires_grad_()
        (gradient,) = torch.autograd.grad(d * (weights[i] / weights.max()).abs(), weights)
        velocity = 0.5 * velocity + gradient
        weights = weights.detach() - lr * velocity
    found = lambda_steps_in_turn(distances, torch.ones_like(distances), lr)
    assert found.tolist() == pytest.approx(weights.tolist())


def test_a_lambda_of_zero_takes_no_turn() -> None:
    assert lambda_steps_in_turn(t(5, 1), t(0, 1), 0.1).tolist() == [0, 1]


def test_the_cut_is_below_the_mean_of_what_is_positive() -> None:
    # positive: 1 x 9 and 0.1: mean 0.91, std 0.2846, cut at 1.5: 0.483
    assert cut_off(t(*[1] * 9, 0.1, -3, 0), 1.5).tolist() == [1] * 9 + [0, 0, 0]
    assert cut_off(t(*[1] * 9, 0.1), 3.0).tolist() == pytest.approx([1] * 9 + [0.1])  # cut 0.056


@pytest.mark.parametrize("values", [(1.0,), (0.5, 0.5), (1e28,) * 9, (0.1 + 0.2,) * 7])
def test_equal_lambdas_are_not_cut(values: tuple[float, ...]) -> None:
    assert cut_off(t(*values), 1.5).tolist() == list(values)


def test_the_pace_follows_blocked_devices_then_the_error() -> None:
    pace = Pace(error=0.5)
    slower = Pace(error=0.5, newly=2).adapted(0.9)
    assert (slower.lr, slower.multiplier) == pytest.approx((0.081, 1.65375))
    assert (slower.error, slower.newly) == (0.9, 0)
    worse = pace.adapted(0.5)  # as bad is not better
    assert (worse.lr, worse.multiplier) == pytest.approx((0.13, 1.5 / 1.05))
    better = pace.adapted(0.4)
    assert (better.lr, better.multiplier, better.error) == pytest.approx((0.09, 1.5, 0.4))
    assert pace.adapted(None) == pace


def test_the_shortest_common_direction_of_opposed_devices() -> None:
    # two at right angles: halves; against each other: they cancel
    assert common_direction(torch.eye(2, dtype=torch.float64), t(0.9, 0.1), 1).tolist() == pytest.approx([0.5, 0.5])
    opposed = t(1, -1).outer(t(1, -1))
    assert common_direction(opposed, t(0.9, 0.1), 1).tolist() == pytest.approx([0.5, 0.5])
    # 1 twice and 2 once, at right angles: 1/4, 1/4, 1/2 share the way evenly
    products = torch.tensor([[1.0, 1, 0], [1, 1, 0], [0, 0, 1]], dtype=torch.float64)
    assert common_direction(products, t(1 / 3, 1 / 3, 1 / 3), 1).tolist() == pytest.approx([0.25, 0.25, 0.5])


def test_epsilon_bounds_how_far_lambda_moves() -> None:
    products = torch.eye(2, dtype=torch.float64)
    assert common_direction(products, t(0.9, 0.1), 0).tolist() == pytest.approx([0.9, 0.1])
    assert common_direction(products, t(0.9, 0.1), 0.1).tolist() == pytest.approx([0.8, 0.2])


def test_the_nearest_share_is_a_share_within_bounds() -> None:
    low, high = t(0, 0, 0), t(1, 1, 1)
    assert nearest_share(t(0.5, 0.5, 0.5), low, high).tolist() == pytest.approx([1 / 3] * 3)
    assert nearest_share(t(9, 0, 0), low, high).tolist() == pytest.approx([1, 0, 0])
    assert nearest_share(t(9, 0, 0), low, t(0.6, 1, 1)).tolist() == pytest.approx([0.6, 0.2, 0.2])
