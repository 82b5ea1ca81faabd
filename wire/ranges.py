"""Sets of chunk numbers as ascending half-open ranges: 5 of 800 chunks take a few bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from core.errors import TransferError

__all__ = ["Gaps", "Ranges", "expand", "to_ranges"]

Ranges: TypeAlias = tuple[tuple[int, int], ...]


def to_ranges(numbers: Iterable[int]) -> Ranges:
    """The ranges of ascending `numbers`.

    >>> to_ranges([0, 1, 2, 7])
    ((0, 3), (7, 8))
    """
    ranges: list[tuple[int, int]] = []
    for n in numbers:
        if ranges and ranges[-1][1] == n:
            ranges[-1] = ranges[-1][0], n + 1
        else:
            ranges.append((n, n + 1))
    return tuple(ranges)


def expand(ranges: Iterable[tuple[int, int]], count: int) -> Iterator[int]:
    """The numbers of `ranges`, ascending; refuses any that is not below `count`, before enumerating it."""
    end = 0
    for start, stop in ranges:
        if not end <= start < stop <= count:
            raise TransferError(f"chunks {start} .. {stop}: an empty range, out of order, or past the last of {count}")
        yield from range(start, stop)
        end = stop


class Gaps:
    """The missing numbers below `count`; the cost per number does not depend on `count`.

    >>> gaps = Gaps(9)
    >>> gaps.fill(3), gaps.fill(3), gaps.first(10)
    (True, False, ((0, 3), (4, 9)))
    """

    def __init__(self, count: int) -> None:
        self._starts, self._stops = ([0], [count]) if count else ([], [])
        self.left = count  # missing numbers

    def __contains__(self, n: int) -> bool:
        i = bisect_right(self._starts, n) - 1
        return i >= 0 and n < self._stops[i]

    def fill(self, n: int) -> bool:
        """Mark `n` as present; False if it already was."""
        i = bisect_right(self._starts, n) - 1
        if i < 0 or n >= self._stops[i]:
            return False
        start, stop = self._starts[i], self._stops[i]
        pieces = [(a, b) for a, b in ((start, n), (n + 1, stop)) if a < b]
        self._starts[i : i + 1] = [a for a, _ in pieces]
        self._stops[i : i + 1] = [b for _, b in pieces]
        self.left -= 1
        return True

    def first(self, limit: int) -> Ranges:
        """The lowest `limit` missing ranges."""
        return tuple(zip(self._starts[:limit], self._stops[:limit], strict=True))
