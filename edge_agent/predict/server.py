"""Predictions over HTTP, on a loopback address or a Unix socket; the standard library's server, one thread a request.

    GET  /health     {"status": "ok", "prototype", "round", "model"}; 503 while there is no model
    GET  /card       the model card
    POST /predict    a request of edge_agent/predict/answers.py, its answer

Before each request the model is reloaded if the agent has replaced it; if a model cannot be loaded, the previous
one stays in use. Bounded: bytes of a request, inputs of it, requests at a time (others get 503 at once), connections,
seconds of a silent client. Errors are {"error": one line}. On a loopback address the Host header must name a loopback
host, so that no web page reaches the server by a DNS name of its own. Imports no torch.
"""

from __future__ import annotations

import errno
import logging
import socket
import threading
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec

from core.errors import ConfigError, ModelError
from edge_agent.predict.address import LOOPBACK, Address, clear_socket
from edge_agent.predict.handler import Handler
from edge_agent.predict.model import Model

__all__ = ["Limits", "PredictServer", "serve_until"]

log = logging.getLogger("edgestill.predict")

SOCKET_MODE = 0o660


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on the resources of clients."""

    max_bytes: int = 16 * 2**20
    requests: int = 8  # at a time
    connections: int = 64
    silent_s: float = 10.0


class PredictServer(ThreadingHTTPServer):
    """Serves the model at `path` until `shutdown`."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, path: Path, address: Address, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.room = threading.BoundedSemaphore(self.limits.requests)
        self.local = isinstance(address, tuple) and address[0] in LOOPBACK
        self._connections = threading.BoundedSemaphore(self.limits.connections)
        self._path, self._model, self._loading = path, None, threading.Lock()
        self._socket_path = address if isinstance(address, Path) else None
        self._reported = ""
        if isinstance(address, Path):
            self.address_family = socket.AF_UNIX
            clear_socket(address)
        elif ":" in address[0]:
            self.address_family = socket.AF_INET6
        try:
            super().__init__(str(address) if isinstance(address, Path) else address, Handler)  # type: ignore[arg-type]
        except OSError as error:
            raise ConfigError(f"--serve {_refused(address, error)}") from None
        if self._socket_path is not None:
            self._socket_path.chmod(SOCKET_MODE)

    _model: Model | None

    @property
    def where(self) -> str:
        """The address that is served."""
        if self._socket_path is not None:
            return f"unix:{self._socket_path}"
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def fresh_model(self) -> Model:
        """The model, reloaded if it has been replaced; ModelError while there is none."""
        with self._loading:
            if self._model is None:
                self._model = Model(self._path)
                log.info("round %s: the model is in use", self._model.card.round)
        try:
            if self._model.reload():
                log.info("round %s: the new model is in use", self._model.card.round)
            self._reported = ""
        except ModelError as error:
            if str(error) != self._reported:
                log.warning("the model before stays in use: %s", error)
            self._reported = str(error)
        return self._model

    def server_bind(self) -> None:
        """As the base class, without its lookup of this host's name, which may take seconds."""
        if self._socket_path is None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def server_close(self) -> None:
        """Close, and remove the socket's file."""
        super().server_close()
        if self._socket_path is not None:
            self._socket_path.unlink(missing_ok=True)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle the request in a thread of its own, up to the limit of threads."""
        if not self._connections.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """As the base class; the connection is no longer counted afterwards."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that disconnects is not an error."""
        log.debug("a connection has failed", exc_info=True)


def _refused(address: Address, error: OSError) -> str:
    why = error.strerror or str(error)
    if isinstance(address, Path):
        return f"unix:{address}: {why}; give a path in a folder that this user may write to"
    remedy = "give another port, or stop what listens there" if error.errno == errno.EADDRINUSE else "give another one"
    return f"{address[0]}:{address[1]}: {why}; {remedy}"


def serve_until(server: PredictServer, on_stop: Callable[[Callable[[], None]], None]) -> None:
    """Serve until the function passed to `on_stop` is called, from any thread or a signal handler."""
    ended = threading.Event()
    on_stop(ended.set)
    thread = threading.Thread(target=server.serve_forever, name="predict server", daemon=True)
    thread.start()
    try:
        while not ended.wait(1.0):  # a wait without a limit would not be interrupted by signals everywhere
            pass
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
