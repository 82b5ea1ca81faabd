"""One HTTP request for predictions: its bounds, its answer, its errors as JSON. See `edge_agent/predict/server.py`."""

from __future__ import annotations

import json
import logging
import time
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import msgspec

from core.errors import DataError, EdgestillError, ModelError
from edge_agent.predict.address import LOOPBACK
from edge_agent.predict.answers import answer_request, model_facts

if TYPE_CHECKING:
    from edge_agent.predict.server import PredictServer

__all__ = ["Handler"]

log = logging.getLogger("edgestill.predict")
MAX_ERROR = 500
BODY_TIMES = 3  # that a whole body may take, in silent seconds


class Handler(BaseHTTPRequestHandler):
    """One connection. HTTP/1.0: each has one request."""

    server: PredictServer
    server_version, sys_version = "edgestill", ""

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(self.server.limits.silent_s)

    def address_string(self) -> str:  # a Unix socket has none
        return str(self.client_address[0]) if self.client_address else "local"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the base class names it so)
        log.debug(format, *args)

    def do_GET(self) -> None:
        if not self._admitted():
            return
        if self.path not in ("/health", "/card"):
            self._wrong_path()
            return
        try:
            model = self.server.fresh_model()
        except ModelError as error:
            self._answer(503, {"error": _one_line(str(error))})
            return
        health = {"status": "ok", **model_facts(model)}
        self._answer(200, health if self.path == "/health" else msgspec.to_builtins(model.card))

    def do_POST(self) -> None:
        if not self._admitted():
            return
        if self.path != "/predict":
            self._wrong_path()
            return
        if not self.server.room.acquire(blocking=False):
            self._answer(503, {"error": "too many requests at a time; try again"})
            return
        try:
            self._predict()
        finally:
            self.server.room.release()

    def _predict(self) -> None:
        size = self.headers.get("Content-Length", "")
        most = self.server.limits.max_bytes
        if not (size.isascii() and size.isdigit()):
            self._answer(411, {"error": "send the request with a Content-Length"})
        elif len(size) > 12 or int(size) > most:
            self._answer(413, {"error": f"a request of {size[:12]} bytes, the limit is {most}"})
        else:
            self._answer(*self._answered(self._body(int(size)), int(size)))

    def _body(self, size: int) -> bytes:
        """The body, or as much of it as arrives in time: a client that sends single bytes slowly is cut off."""
        pieces, until = [], time.monotonic() + BODY_TIMES * self.server.limits.silent_s
        while size > 0 and time.monotonic() < until:
            try:
                piece = self.rfile.read1(min(size, 2**16))
            except OSError:  # silent for too long, or gone
                break
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _answered(self, body: bytes, size: int) -> tuple[int, dict[str, Any]]:
        if len(body) < size:
            return 400, {"error": f"the request ended after {len(body)} of {size} bytes"}
        try:
            model = self.server.fresh_model()
        except ModelError as error:
            return 503, {"error": _one_line(str(error))}
        try:
            return 200, answer_request(model, body)
        except DataError as error:
            return 400, {"error": _one_line(str(error))}
        except (EdgestillError, MemoryError) as error:
            return 500, {"error": _one_line(str(error) or "out of memory")}
        except Exception as error:  # a fault of ours that a request has found
            log.exception("a request failed")
            return 500, {"error": f"internal error: {type(error).__name__}"}

    def _admitted(self) -> bool:
        host = self.headers.get("Host", "localhost").rsplit(":", 1)[0].strip("[]") or "localhost"
        if self.server.local and host not in LOOPBACK:
            self._answer(403, {"error": f"Host {host[:100]!r} is not this machine; use 127.0.0.1"})
            return False
        return True

    def _wrong_path(self) -> None:
        self._answer(404, {"error": "no such path; GET /health, GET /card or POST /predict"})

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Errors of the base class, such as an unknown method, as JSON too."""
        self._answer(int(code), {"error": _one_line(message or explain or f"HTTP {int(code)}")})

    def _answer(self, code: int, fields: dict[str, Any]) -> None:
        data = json.dumps(fields).encode() + b"\n"
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:MAX_ERROR]
