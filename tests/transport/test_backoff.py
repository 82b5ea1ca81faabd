"""Waits between attempts."""

import random

import pytest

from transport.backoff import Backoff

pytestmark = pytest.mark.light


class Longest(random.Random):
    """The upper end of every draw, for exact answers."""

    def uniform(self, a: float, b: float) -> float:
        return b


def test_failures_double_from_a_fifth_of_a_second_to_ten_seconds() -> None:
    backoff = Backoff(Longest())
    waits = [backoff.wait(None) for _ in range(8)]
    assert waits == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]


def test_a_connection_that_stood_starts_over() -> None:
    backoff = Backoff(Longest())
    for _ in range(5):
        backoff.wait(None)
    assert backoff.wait(60.0) == 0.2


def test_connections_that_break_at_once_wait_longer_but_never_more_than_a_second() -> None:
    backoff = Backoff(Longest())
    assert [backoff.wait(0.01) for _ in range(5)] == [0.2, 0.4, 0.8, 1.0, 1.0]


def test_four_brief_connections_in_a_row_are_restless() -> None:
    backoff = Backoff()
    for _ in range(3):
        backoff.wait(0.5)
    assert not backoff.restless
    backoff.wait(0.5)
    assert backoff.restless
    backoff.wait(2.0)
    assert not backoff.restless


def test_jitter_takes_up_to_half_off() -> None:
    waits = [Backoff(random.Random(seed)).wait(None) for seed in range(200)]
    assert 0.1 <= min(waits) < 0.11
    assert 0.19 < max(waits) <= 0.2
