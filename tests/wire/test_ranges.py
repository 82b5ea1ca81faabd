"""Chunk numbers as ranges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import TransferError
from wire.ranges import Gaps, expand, to_ranges

pytestmark = pytest.mark.light


@given(st.sets(st.integers(0, 40)))
def test_numbers_come_back_from_the_fewest_ranges(numbers):
    ranges = to_ranges(sorted(numbers))
    assert list(expand(ranges, 41)) == sorted(numbers)
    assert len(ranges) == sum(n - 1 not in numbers for n in numbers)


@pytest.mark.parametrize("ranges", [[(3, 3)], [(4, 3)], [(-1, 2)], [(0, 11)], [(5, 6), (0, 1)], [(0, 3), (2, 4)]])
def test_a_range_that_is_empty_out_of_order_or_out_of_bounds_is_refused(ranges):
    with pytest.raises(TransferError, match="last of 10"):
        list(expand(ranges, 10))


def test_an_absurd_range_is_refused_before_it_is_counted_out():
    with pytest.raises(TransferError):
        next(expand([(0, 10**18)], 10))


@given(st.integers(1, 60), st.data())
def test_gaps_are_what_to_ranges_says_of_the_numbers_that_are_missing(count, data):
    gaps, missing = Gaps(count), set(range(count))
    for n in data.draw(st.lists(st.integers(-2, count + 2), max_size=80)):
        assert (n in gaps) == (n in missing)
        assert gaps.fill(n) == (n in missing)
        missing.discard(n)
        assert gaps.left == len(missing)
        assert gaps.first(1000) == to_ranges(sorted(missing))
        assert gaps.first(2) == to_ranges(sorted(missing))[:2]


def test_nothing_is_missing_of_nothing():
    assert (Gaps(0).left, Gaps(0).first(5), 0 in Gaps(0)) == (0, (), False)
