"""Rounding shares to counts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fleet.partition.common import cut_points, generator, whole_counts


def test_largest_remainders_are_rounded_up() -> None:
    # 7 samples by 0.5, 0.3, 0.2: exactly 3.5, 2.1, 1.4; the missing one goes to the 3.5
    assert whole_counts(np.array([0.5, 0.3, 0.2]), 7).tolist() == [4, 2, 1]


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=20), st.integers(0, 1000))
def test_counts_sum_to_the_total_and_stay_within_one_of_the_shares(shares: list[float], total: int) -> None:
    q = np.array(shares)
    counts = whole_counts(q, total)
    assert counts.sum() == total
    assert (np.abs(counts - q / q.sum() * total) < 1 + 1e-6).all()


def test_cuts_are_floors_of_the_cumulative_shares() -> None:
    assert cut_points(np.array([0.25, 0.25, 0.5]), 10).tolist() == [2, 5]


def test_a_cumulative_sum_just_below_a_whole_number_is_that_number() -> None:
    tenths = np.full(10, 0.1)
    assert np.cumsum(tenths)[7] * 10 < 8  # why the correction is there
    assert cut_points(tenths, 10).tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_a_generator_is_used_as_it_is() -> None:
    rng = np.random.default_rng(5)
    assert generator(rng) is rng
    assert generator(5).integers(1 << 30) == np.random.default_rng(5).integers(1 << 30)
