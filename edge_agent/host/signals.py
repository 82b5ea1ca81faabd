"""SIGTERM and SIGINT, by which systemd and a user end the agent."""

from __future__ import annotations

import signal
from collections.abc import Callable

__all__ = ["stop_on_signals"]


def stop_on_signals(stop: Callable[[], None]) -> None:
    """Call `stop` on SIGTERM and SIGINT; to be called on the main thread."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop())
