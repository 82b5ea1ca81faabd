"""Free loopback ports for tests, apart from those of other test processes."""

from __future__ import annotations

import contextlib
import functools
import itertools
import socket
from collections.abc import Iterator

import pytest

BLOCK = 100
PORTS = range(18_000, 32_000, BLOCK)  # below those that the kernel gives to outgoing connections
_NAMES: list[socket.socket] = []


def free_port() -> int:
    """A port that no other test process is given, nor, before it listens, an outgoing connection."""
    ports = _own_ports()
    for _ in range(BLOCK):
        port = next(ports)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    pytest.fail("none of this process's ports is free")


@functools.cache
def _own_ports() -> Iterator[int]:
    """A block of ports in turn: this process's, as long as it holds a name that the kernel gives away once."""
    for first in PORTS:
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0edgestill-tests-ports-{first}")
        except OSError:
            name.close()
            continue
        _NAMES.append(name)
        return itertools.cycle(range(first, first + BLOCK))
    pytest.fail("every block of ports is taken")
