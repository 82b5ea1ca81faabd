"""Formats the numbers of a report; a missing value is a dash."""

from __future__ import annotations

from core.durations import span

__all__ = ["DASH", "percent", "size", "span"]

DASH = "–"


def percent(value: float | None) -> str:
    """
    >>> percent(0.91234), percent(None)
    ('91.2 %', '–')
    """
    return DASH if value is None else f"{100 * value:.1f} %"


def size(count: float | None) -> str:
    """Bytes in a suitable unit.

    >>> size(1234), size(56_789_000), size(None)
    ('1.2 kB', '56.8 MB', '–')
    """
    if count is None:
        return DASH
    for unit, scale in (("kB", 1e3), ("MB", 1e6), ("GB", 1e9)):
        if count < 1000 * scale or unit == "GB":
            return f"{count / scale:.1f} {unit}"
    raise AssertionError("the last unit fits")
