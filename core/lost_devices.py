"""Devices of a round that were lost, in words: who, how many of how many, why, and what helps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from core.local_defaults import CLIP, auto_lr

__all__ = ["FATAL", "NOTABLE", "lost_text", "named", "remedy"]

NOTABLE = 0.1  # share of the asked devices above which it is worth a warning
FATAL = 0.5  # and above which a round is of no use
NAMED = 4


def named(devices: Iterable[str]) -> str:
    """
    >>> named(["a", "b", "c", "d", "e", "f"]), named(["a"])
    ('a, b, c, d and 2 more', 'a')
    """
    names = sorted(devices)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def lost_text(lost: Mapping[str, str], asked: int) -> str:
    """How many of `asked`, the first of them by name, and the reason that most of them have.

    >>> lost_text({"pi-1": "out of memory", "pi-2": "out of memory"}, 30)
    '2 of 30 devices lost: pi-1, pi-2: out of memory'
    """
    reason, _ = Counter(lost.values()).most_common(1)[0]
    others = len(set(lost.values())) - 1
    more = f" (and {others} other reason{'s' * (others > 1)})" if others else ""
    return f"{len(lost)} of {asked} devices lost: {named(lost)}: {reason}{more}"


def remedy(training: Mapping[str, Any], *, lr: str = "--lr", clip: str = "--clip") -> str:
    """What helps where training diverges, by what it is now; `lr` and `clip` are how the user sets them."""
    rate = float(training["lr"])
    usual = auto_lr(int(training["batch_size"]), float(training["momentum"]))
    said = f"where training diverges, a smaller learning rate helps: {lr} is {rate:g}, try {min(usual, rate / 10):.3g}"
    return said if training.get("clip") else f"{said}; and so does {clip} {CLIP:g}, which is off"
