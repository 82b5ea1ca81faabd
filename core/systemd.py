"""Notify systemd that a service is ready, alive, or stopping (`Type=notify`, `WatchdogSec=`): sd_notify(3)."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Mapping

__all__ = ["Heartbeat", "notify", "watchdog_seconds"]


def notify(state: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Send `READY=1` or similar; False if not started by systemd."""
    address = environ.get("NOTIFY_SOCKET")
    if not address:
        return False
    address = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            sock.sendto(state.encode(), address)
    except OSError:
        return False
    return True


def watchdog_seconds(environ: Mapping[str, str] = os.environ) -> float | None:
    """Interval of `WATCHDOG=1`: half of systemd's timeout; None without a watchdog."""
    try:
        period = int(environ["WATCHDOG_USEC"]) / 2e6
        ours = int(environ.get("WATCHDOG_PID", os.getpid())) == os.getpid()
    except (KeyError, ValueError):
        return None
    return period if ours and period > 0 else None


class Heartbeat:
    """`WATCHDOG=1` as often as systemd wants it; never, if it does not."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._every = watchdog_seconds(environ)
        self.due = math.inf if self._every is None else self._every  # on the monotonic clock

    def beat(self, now: float) -> None:
        """Say it, if it is due."""
        if self._every is not None and now >= self.due:
            notify("WATCHDOG=1", self._environ)
            self.due = now + self._every
