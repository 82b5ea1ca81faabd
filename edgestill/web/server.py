"""Serves the page with uvicorn: where it may listen, and what it asks of readers there."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import uvicorn

from aggregator.config.fleet import FleetConfig
from core.addresses import is_loopback, parse_address
from core.errors import ConfigError
from core.newest_lines import ROOT
from edgestill.web.app import make_app
from edgestill.web.changes import Changes
from edgestill.web.token import has_token

__all__ = ["WebOptions", "check_options", "options_of", "serve_web"]

log = logging.getLogger("edgestill.web")
DEFAULT = "127.0.0.1:8080"
GRACE_S = 3  # more than a look for changes takes
MOST = 200  # connections


@dataclass(frozen=True, slots=True)
class WebOptions:
    """Where to listen, and with which certificate."""

    address: str
    cert: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ConfigError("TLS needs both certificate and key; give web_cert and web_key, or neither")
        for path in (self.cert, self.key):
            if path is not None and not path.is_file():
                raise ConfigError(f"there is no file {path}; give the certificate and its key in PEM")


class _Server(uvicorn.Server):
    """Ends the open streams when it ends, instead of cancelling them."""

    def __init__(self, settings: uvicorn.Config, changes: Changes) -> None:
        super().__init__(settings)
        self._changes = changes

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal has come."""
        self._changes.end()
        super().handle_exit(sig, frame)


def options_of(config: FleetConfig) -> WebOptions:
    """What [monitor] says."""
    monitor = config.monitor
    return WebOptions(monitor.web or DEFAULT, monitor.web_cert, monitor.web_key)


def serve_web(config: FleetConfig, options: WebOptions) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    check_options(config, options)
    host, port = parse_address(options.address)
    local = is_loopback(host)
    changes = Changes(config.state)
    app = make_app(config, changes, open_reading=local, secure=options.cert is not None, loopback=local)
    listening = _listen(host, port, options.address)
    scheme, shown = "https" if options.cert else "http", f"[{host}]" if ":" in host else host
    log.info("the page of fleet %s: %s://%s:%d/", config.fleet, scheme, shown, listening.getsockname()[1])
    settings = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        ssl_certfile=options.cert,
        ssl_keyfile=options.key,
        timeout_graceful_shutdown=GRACE_S,
        limit_concurrency=MOST,
        ws="none",
    )
    _log_as_we_do()
    with _signals_answered():
        _Server(settings, changes).run(sockets=[listening])


def _log_as_we_do() -> None:
    """What uvicorn complains of goes where our log goes, in its format."""
    theirs = logging.getLogger("uvicorn")
    theirs.handlers, theirs.propagate = logging.getLogger(ROOT).handlers, False
    theirs.setLevel(logging.WARNING)


@contextlib.contextmanager
def _signals_answered() -> Iterator[None]:
    """uvicorn ends by SIGTERM and Ctrl-C, and then raises them again; the command has ended well all the same."""
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def check_options(config: FleetConfig, options: WebOptions) -> None:
    """Refuse an address at which nobody could log in; warn of one at which the token could be read on its way."""
    where = options.address
    if is_loopback(parse_address(where)[0]):
        return
    if not has_token(config.state):
        raise ConfigError(f"{where} is reached from elsewhere, and nobody could log in; run: edgestill web token")
    if options.cert is None:
        log.warning("the page at %s is not encrypted, nor is the token on its way; give web_cert and web_key", where)


def _listen(host: str, port: int, address: str) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise ConfigError(f"cannot serve the page at {address}: {reason}; give another address") from None
