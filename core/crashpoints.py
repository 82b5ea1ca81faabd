"""Named places at which a test may have a process killed, as a power cut would.

`EDGESTILL_CRASH_AT=name` or `name:3` (the third time) kills the process with SIGKILL there; unset, `reach` does
nothing. No handler runs, nothing is flushed: what survives is what was durable.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

__all__ = ["reach"]

_seen: Counter[str] = Counter()


def reach(name: str) -> None:
    """The process is at `name`."""
    wanted = os.environ.get("EDGESTILL_CRASH_AT")
    if wanted is None:
        return
    point, _, count = wanted.partition(":")
    _seen[name] += 1
    if point == name and _seen[name] == int(count or 1):
        os.kill(os.getpid(), signal.SIGKILL)
