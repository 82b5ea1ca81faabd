"""Noised and binned label counts."""

import math
from collections import Counter

import pytest

from edge_agent.training.label_privacy import told_counts, told_examples

pytestmark = pytest.mark.light
SECRET = b"of this device alone"


def test_without_a_wish_the_counts_are_told_as_they_are() -> None:
    assert told_counts((3, 0, 7), secret=SECRET) == (3, 0, 7)


def test_bins_round_to_the_nearest_multiple() -> None:
    assert told_counts((0, 4, 5, 14, 96), secret=SECRET, width=10) == (0, 0, 10, 10, 100)


def test_the_same_counts_are_always_told_with_the_same_noise() -> None:
    first = told_counts(range(20), secret=SECRET, epsilon=0.5)
    assert first == told_counts(range(20), secret=SECRET, epsilon=0.5)
    assert first != told_counts(range(20), secret=b"of another", epsilon=0.5)
    assert first != tuple(range(20))


def test_noise_is_two_sided_geometric() -> None:
    """epsilon = 1: q = e^-1, P(0) = (1 - q) / (1 + q) = 0.462, P(1) = P(-1) = 0.170, variance 2q / (1 - q)^2 = 1.84."""
    n, base = 20_000, 10**6
    noise = [c - base for c in told_counts([base] * n, secret=SECRET, epsilon=1.0)]
    found, q = Counter(noise), math.exp(-1.0)
    assert found[0] / n == pytest.approx((1 - q) / (1 + q), abs=0.015)  # four standard errors
    assert found[1] / n == pytest.approx((1 - q) / (1 + q) * q, abs=0.011)
    assert found[-1] / n == pytest.approx((1 - q) / (1 + q) * q, abs=0.011)
    assert sum(x * x for x in noise) / n == pytest.approx(2 * q / (1 - q) ** 2, rel=0.1)


def test_smaller_epsilon_means_more_noise() -> None:
    def spread(epsilon: float) -> float:
        return sum(abs(c - 10**6) for c in told_counts([10**6] * 500, secret=SECRET, epsilon=epsilon)) / 500

    assert spread(0.1) > 5 * spread(1.0)


def test_no_count_is_told_as_less_than_none() -> None:
    told = told_counts([0] * 200, secret=SECRET, epsilon=0.5)
    assert min(told) == 0
    assert max(told) > 0


def test_noise_comes_before_bins() -> None:
    told = told_counts([50] * 30, secret=SECRET, epsilon=0.05, width=10)
    assert all(c % 10 == 0 for c in told)
    assert len(set(told)) > 1


def test_examples_are_the_sum_of_what_is_told_and_never_none() -> None:
    assert told_examples((3, 4)) == 7
    assert told_examples((0, 0)) == 1
