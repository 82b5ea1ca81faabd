"""Messages about the lost devices of a round: names, number, reason and remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from core.local_defaults import CLIP, auto_lr

__all__ = ["FATAL", "NOTABLE", "lost_text", "named", "remedy"]

NOTABLE = 0.1  # fraction of the invited devices above which a warning is logged
FATAL = 0.5  # and above which the round is useless
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
    """Number of lost devices of `asked`, the first names, and the most frequent reason.

    >>> lost_text({"pi-1": "out of memory", "pi-2": "out of memory"}, 30)
    '2 of 30 devices lost: pi-1, pi-2: out of memory'
    """
    reason, _ = Counter(lost.values()).most_common(1)[0]
    others = len(set(lost.values())) - 1
    more = f" (and {others} other reason{'s' * (others > 1)})" if others else ""
    return f"{len(lost)} of {asked} devices lost: {named(lost)}: {reason}{more}"


def remedy(training: Mapping[str, Any], *, lr: str = "--lr", clip: str = "--clip") -> str:
    """Advice against diverging training, given the current settings; `lr` and `clip` are the names of the options."""
    rate = float(training["lr"])
    usual = auto_lr(int(training["batch_size"]), float(training["momentum"]))
    said = f"where training diverges, a smaller learning rate helps: {lr} is {rate:g}, try {min(usual, rate / 10):.3g}"
    return said if training.get("clip") else f"{said}; and so does {clip} {CLIP:g}, which is off"
