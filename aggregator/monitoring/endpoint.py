"""GET /metrics, /healthz and /readyz over HTTP, in threads of the service's process.

/metrics    Prometheus text or OpenMetrics, as asked
/healthz    200 while the service loop turns, else 503 and the reason: restart the process
/readyz     200 while it is connected, can write and has its first models, else 503 and the reason
"""

from __future__ import annotations

import logging
import socket
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from aggregator.monitoring.live import Live
from core.addresses import is_loopback, parse_address
from core.errors import ConfigError

__all__ = ["Endpoint"]

log = logging.getLogger("edgestill.aggregator")
TIMEOUT_S = 10.0  # for a client to send its request, and to read the answer
TEXT = "text/plain; charset=utf-8"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 16

    def __init__(self, address: tuple[str, int], registry: CollectorRegistry, live: Live) -> None:
        self.registry, self.live = registry, live
        super().__init__(address, _Handler)


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "edgestill", ""
    timeout = TIMEOUT_S

    def do_GET(self) -> None:
        """Answer one request."""
        match self.path.partition("?")[0]:
            case "/metrics":
                encode, kind = choose_encoder(self.headers.get("Accept", ""))
                try:
                    self._answer(200, encode(self.server.registry), kind)
                except Exception as error:  # of the journal or the disk: the scrape fails, the service goes on
                    log.warning("metrics cannot be collected: %s", error)
                    self._answer(500, f"cannot be collected: {error}\n".encode(), TEXT)
            case "/healthz":
                self._state(self.server.live.unhealthy(time.monotonic()))
            case "/readyz":
                self._state(self.server.live.unready(time.monotonic()))
            case _:
                self._answer(404, b"GET /metrics, /healthz or /readyz\n", TEXT)

    do_HEAD = do_GET  # noqa: N815

    def _state(self, reason: str) -> None:
        self._answer(503 if reason else 200, f"{reason or 'ok'}\n".encode(), TEXT)

    def _answer(self, code: int, body: bytes, kind: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Requests are not logged."""


class Endpoint:
    """Listens from its start until the block ends."""

    def __init__(self, address: str, registry: CollectorRegistry, live: Live) -> None:
        host, port = parse_address(address)
        try:
            server = _Server6 if ":" in host else _Server
            self._server = server((host, port), registry, live)
        except OSError as error:
            reason = error.strerror or error
            raise ConfigError(f"cannot serve metrics at {address}: {reason}; give another address or port") from None
        self._thread = Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        if not is_loopback(host):
            log.warning("metrics at %s: anybody who reaches it can read names and figures of the fleet", address)

    @property
    def port(self) -> int:
        """The port that it listens on, also where 0 was asked for."""
        return int(self._server.server_address[1])

    def __enter__(self) -> Endpoint:
        self._thread.start()
        log.info("metrics at http://%s:%d/metrics", self._server.server_address[0], self.port)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
