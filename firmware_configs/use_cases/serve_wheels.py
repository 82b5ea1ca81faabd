"""Serves the wheels of a fleet's kits to its boards, until it is interrupted."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from core.errors import ConfigError
from firmware_configs.kits.wheels import STORE
from firmware_configs.wheel_server import WheelServer

__all__ = ["open_server", "serve_wheels"]

LISTEN = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+)):([0-9]{1,5})")


def open_server(kits: Path, listen: str, told: Callable[[str], None]) -> WheelServer:
    """The server of the wheels in the folder `kits`, listening on HOST:PORT."""
    found = LISTEN.fullmatch(listen)
    if found is None or int(found[3]) > 65535:
        raise ConfigError(f"--listen {listen[:80]!r}: give an address and a port, such as 0.0.0.0:8090")
    store = kits / STORE
    if not store.is_dir():
        raise ConfigError(f'{store}: no such folder; `edgestill provision` makes it, with wheels = "fleet" or "card"')
    return WheelServer(store, found[1] or found[2], int(found[3]), told)


def serve_wheels(kits: Path, listen: str, told: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM."""
    with open_server(kits, listen, told) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        told(f"wheels of {kits} are served on {listen}; stop with Ctrl-C")
        try:
            _wait()
        finally:
            server.shutdown()
            thread.join()


def _wait() -> None:
    """Until a signal."""
    ended = threading.Event()
    before = {number: signal.signal(number, lambda *_: ended.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        while not ended.wait(1.0):
            pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
