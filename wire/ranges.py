"""Sets of chunk numbers as ascending half-open ranges: 5 of 800 chunks are told in a few bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from wire.errors import TransferError

__all__ = ["Ranges", "expand", "to_ranges"]

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
    """The numbers of `ranges`, ascending; refuses any that is not below `count`, before counting it out."""
    end = 0
    for start, stop in ranges:
        if not end <= start < stop <= count:
            raise TransferError(f"chunks {start} .. {stop}: an empty range, out of order, or past the last of {count}")
        yield from range(start, stop)
        end = stop
