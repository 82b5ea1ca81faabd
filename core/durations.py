"""Seconds in words."""

from __future__ import annotations

__all__ = ["coarse", "span"]


def span(seconds: float, decimals: int = 1) -> str:
    """Seconds in a suitable unit; `decimals` apply to seconds.

    >>> span(42.25), span(754), span(8000), span(42.25, 0)
    ('42.2 s', '12.6 min', '2.2 h', '42 s')
    """
    if seconds < 120:
        return f"{seconds:.{decimals}f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def coarse(seconds: float) -> str:
    """Whole units, for how long something has lasted.

    >>> coarse(-3), coarse(42.9), coarse(250), coarse(9000), coarse(400_000)
    ('0 s', '42 s', '4 min', '2 h', '4 days')
    """
    seconds = max(seconds, 0.0)
    if seconds < 120:
        return f"{int(seconds)} s"
    if seconds < 7200:
        return f"{int(seconds / 60)} min"
    return f"{int(seconds / 3600)} h" if seconds < 172_800 else f"{int(seconds / 86_400)} days"
