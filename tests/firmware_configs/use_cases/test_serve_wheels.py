"""Wheels are served until a signal, and the former handlers of signals are put back."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.use_cases.serve_wheels import open_server, serve_wheels
from tests.brokers import free_port

pytestmark = pytest.mark.light


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "_wheels").mkdir()
    told: list[str] = []
    before = signal.getsignal(number)
    threading.Timer(0.3, os.kill, (os.getpid(), number)).start()
    listen = f"127.0.0.1:{free_port()}"
    serve_wheels(tmp_path, listen, told.append)
    assert told == [f"wheels of {tmp_path} are served on {listen}; stop with Ctrl-C"]
    assert signal.getsignal(number) == before


def test_addresses(tmp_path: Path) -> None:
    (tmp_path / "_wheels").mkdir()
    for listen in ("127.0.0.1:0", "localhost:0", "[::1]:0"):
        with open_server(tmp_path, listen, print) as server:
            assert server.port > 0
    with pytest.raises(ConfigError, match="give an address and a port"):
        open_server(tmp_path, "::1:0", print)
