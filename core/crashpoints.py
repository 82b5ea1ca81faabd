"""Named points at which a test can kill a process, as a power cut would.

`EDGESTILL_CRASH_AT=name` or `name:3` (the third time) kills the process with SIGKILL there; unset, `reach` does
nothing. No handler runs, nothing is flushed: only durable data survives.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

__all__ = ["reach"]

_seen: Counter[str] = Counter()


def reach(name: str) -> None:
    """Mark that the process has reached the point `name`."""
    wanted = os.environ.get("EDGESTILL_CRASH_AT")
    if wanted is None:
        return
    point, _, count = wanted.partition(":")
    _seen[name] += 1
    if point == name and _seen[name] == int(count or 1):
        os.kill(os.getpid(), signal.SIGKILL)
