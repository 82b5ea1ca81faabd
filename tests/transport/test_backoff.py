"""Waits between attempts."""

import random

import pytest

from transport.backoff import Backoff

pytestmark = pytest.mark.light


class Middle(random.Random):
    """The upper end of every draw, for exact answers."""

    def uniform(self, a: float, b: float) -> float:
        return b


def test_failures_double_from_a_fifth_of_a_second_to_ten_seconds() -> None:
    backoff = Backoff(Middle())
    waits = [backoff.failed() for _ in range(8)]
    assert waits == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]


def test_a_connection_that_stood_starts_over() -> None:
    backoff = Backoff(Middle())
    for _ in range(5):
        backoff.failed()
    assert backoff.lost(60.0) == 0.2


def test_connections_that_break_at_once_wait_longer_but_never_more_than_a_second() -> None:
    backoff = Backoff(Middle())
    assert [backoff.lost(0.01) for _ in range(5)] == [0.2, 0.4, 0.8, 1.0, 1.0]


def test_jitter_takes_up_to_half_off() -> None:
    waits = [Backoff(random.Random(seed)).failed() for seed in range(200)]
    assert 0.1 <= min(waits) < 0.11
    assert 0.19 < max(waits) <= 0.2
