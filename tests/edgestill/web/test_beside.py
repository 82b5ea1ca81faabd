"""The page beside a service: started, started again, ended with it."""

from __future__ import annotations

import os
import signal
import socket
import urllib.error
import urllib.request
from contextlib import closing

import pytest

from aggregator.config.fleet import FleetConfig
from edgestill.web import beside as module
from edgestill.web.beside import PageBeside
from tests.aggregator.running import wait_until
from tests.brokers import free_port


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=120):
            return True
    except (urllib.error.URLError, ConnectionError):
        return False


def test_a_page_that_is_killed_comes_back_and_ends_with_its_block(
    config: FleetConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.05)
    monkeypatch.setattr(module, "REST_S", 0.05)
    port = free_port()
    with PageBeside(config.path, [f"monitor.web=127.0.0.1:{port}"]) as page:
        wait_until(lambda: answers(port))
        first = page.process_id
        assert first is not None
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: page.process_id not in (first, None) and answers(port))
        last = page.process_id
    assert "the page was killed by SIGKILL; it is started again" in caplog.text
    assert last is not None
    with pytest.raises(ProcessLookupError):
        os.kill(last, 0)
    assert not answers(port)


def test_a_page_that_cannot_be_served_is_given_up(config: FleetConfig, caplog: pytest.LogCaptureFixture) -> None:
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as taken,
        PageBeside(config.path, [f"monitor.web=127.0.0.1:{taken.getsockname()[1]}"]),
    ):
        wait_until(lambda: "the page is not served; the reason is above" in caplog.text)
