"""Where the page may be served, and a real server with TLS."""

from __future__ import annotations

import io
import json
import logging
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.config.fleet import FleetConfig
from core.errors import ConfigError
from core.logs import setup_logging
from edgestill.web import server
from edgestill.web.server import WebOptions, serve_web
from tests.aggregator.running import wait_until
from tests.brokers import free_port
from tests.certificates import Authority


def test_elsewhere_needs_a_token(config: FleetConfig) -> None:
    with pytest.raises(ConfigError, match="nobody could log in; run: edgestill web token"):
        serve_web(config, WebOptions("0.0.0.0:0"))


def test_an_address_in_use_is_told_in_one_line(config: FleetConfig) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=f"page at {address}: Address already in use; give another"):
            serve_web(config, WebOptions(address))


def test_certificate_and_key_go_together(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="TLS needs both certificate and key"):
        WebOptions("127.0.0.1:0", cert=tmp_path)
    with pytest.raises(ConfigError, match=r"there is no file .*gone\.pem"):
        WebOptions("127.0.0.1:0", cert=tmp_path / "gone.pem", key=tmp_path / "gone.key")


def test_the_command_serves_over_tls_and_ends_at_once(config: FleetConfig, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    cert, key = authority.issue("127.0.0.1")
    port = free_port()
    command = [sys.executable, "-m", "edgestill", "web", "--config", config.path, "--listen", f"127.0.0.1:{port}"]
    files = ["--set", f"monitor.web_cert={cert}", "--set", f"monitor.web_key={key}"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([*command, *files], stdout=log, stderr=log)
    try:
        trusted = ssl.create_default_context(cafile=authority.ca)

        def answers() -> bool:
            assert process.poll() is None, (tmp_path / "log").read_text()
            try:
                with urllib.request.urlopen(f"https://127.0.0.1:{port}/", context=trusted, timeout=120) as page:
                    return b"<h1>Overview</h1>" in page.read()
            except (urllib.error.URLError, ConnectionError):
                return False

        wait_until(answers, 120)
        stream = urllib.request.urlopen(f"https://127.0.0.1:{port}/events", context=trusted, timeout=120)
        assert stream.readline() == b"retry: 2000\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    log_text = (tmp_path / "log").read_text()
    assert "the page of fleet test-fleet: https://127.0.0.1:" in log_text
    assert "Traceback" not in log_text


def test_what_uvicorn_complains_of_is_logged_as_we_log(monkeypatch: pytest.MonkeyPatch) -> None:
    root, theirs = logging.getLogger("edgestill"), logging.getLogger("uvicorn")
    for logger, names in ((root, ("handlers", "level", "propagate")), (theirs, ("handlers", "level", "propagate"))):
        for name in names:
            monkeypatch.setattr(logger, name, getattr(logger, name))
    stream = io.StringIO()
    setup_logging("json", stream=stream)
    server._log_as_we_do()
    logging.getLogger("uvicorn.error").info("started")
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    (line,) = stream.getvalue().splitlines()
    facts = json.loads(line)
    assert list(facts) == ["time", "level", "logger", "message"]
    assert (facts["level"], facts["message"]) == ("warning", "Invalid HTTP request received.")
