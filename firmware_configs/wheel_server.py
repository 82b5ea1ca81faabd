"""Serves wheels to boards over HTTP: `kits/_wheels`, by hash, and nothing else.

    GET /SHA256/FILE.whl        also HEAD; with a Range, of one part

There is no list of what is there: only a client that knows the SHA-256 of a wheel, which is in the kits, can fetch it.
A path is matched as a whole, and links are not followed. Every answer but a wheel is one line, which repeats nothing of
the request. Connections are limited, in all and of one address; a client that does not read is disconnected.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any

from core.errors import ConfigError
from core.files import open_regular

__all__ = ["WheelServer"]

PLACE = re.compile(r"/([0-9a-f]{64})/([A-Za-z0-9_][A-Za-z0-9._+-]{0,250}\.whl)")
RANGE = re.compile(r"bytes=([0-9]{1,15})-([0-9]{0,15})")
PIECE = 1 << 18
TIMEOUT_S = 30.0  # of one read or write
MOST, MOST_OF_ONE = 64, 16  # connections, in all and of one address
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class WheelServer(ThreadingHTTPServer):
    """The server of one folder `_wheels`; `told` is called with a line for every wheel that was sent."""

    daemon_threads = True
    request_queue_size = MOST

    def __init__(self, store: Path, host: str, port: int, told: Callable[[str], None]) -> None:
        self.store, self.told = store, told
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise ConfigError(f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}") from None

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    def server_bind(self) -> None:
        """Without the name of this machine, which a name server would be asked for."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def process_request(self, request: Any, client_address: Any) -> None:
        """One thread for each connection, if there is room for one more."""
        host = client_address[0]
        with self._lock:
            free = self._open.total() < MOST and self._open[host] < MOST_OF_ONE
            self._open[host] += free
        if free:
            super().process_request(request, client_address)
            return
        try:
            request.settimeout(0)
            request.send(BUSY)
        except OSError:
            pass  # it need not be told
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """On a thread of its own."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._open[client_address[0]] -= 1
                self._open += Counter()  # forgets those without a connection

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks is nothing to tell."""


class _Handler(BaseHTTPRequestHandler):
    """One request, after which the connection is closed."""

    server: WheelServer
    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT_S

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        self.close_connection = True
        place = PLACE.fullmatch(self.path)
        file = self._open(place[1], place[2]) if place else None
        if place is None or file is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        with file:
            size = os.fstat(file.fileno()).st_size
            part = _part(self.headers.get("Range"), size)
            if part is None:
                self._head(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, 0, f"bytes */{size}")
                return
            start, end = part
            whole = (start, end) == (0, size)
            status = HTTPStatus.OK if whole else HTTPStatus.PARTIAL_CONTENT
            self._head(status, end - start, None if whole else f"bytes {start}-{end - 1}/{size}")
            if body:
                file.seek(start)
                self._send(file, end - start)
                self.server.told(f"{self.client_address[0]}: {place[2]}, {(end - start) / 1e6:.1f} MB")

    def _open(self, sha256: str, name: str) -> IO[bytes] | None:
        folder = self.server.store / sha256
        try:
            return None if folder.is_symlink() else os.fdopen(open_regular(folder / name, follow=False), "rb")
        except OSError:
            return None

    def _head(self, status: HTTPStatus, length: int, part: str | None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(length))
        self.send_header("Accept-Ranges", "bytes")
        if part is not None:
            self.send_header("Content-Range", part)
        self.send_header("Connection", "close")
        self.end_headers()

    def _send(self, file: IO[bytes], left: int) -> None:
        while left and (piece := file.read(min(PIECE, left))):
            self.wfile.write(piece)
            left -= len(piece)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """One line, without anything of the request."""
        self.close_connection = True
        text = f"{HTTPStatus(code).phrase}\n".encode()
        self.send_response(code, HTTPStatus(code).phrase)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def version_string(self) -> str:
        """The header Server."""
        return "edgestill"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the names of http.server
        """Refused requests are not logged: whoever sends them could fill the log."""


def _part(asked: str | None, size: int) -> tuple[int, int] | None:
    """The bytes to send, from and to; None: there are none such. What is not understood is ignored, as HTTP has it."""
    found = RANGE.fullmatch(asked or "")
    if found is None:
        return 0, size
    start, end = int(found[1]), min(size, int(found[2]) + 1 if found[2] else size)
    return (start, end) if start < end else None
