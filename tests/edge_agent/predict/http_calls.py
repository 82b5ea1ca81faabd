"""A server of predictions in a thread, and calls to it."""

from __future__ import annotations

import http.client
import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from edge_agent.predict.address import Address
from edge_agent.predict.server import Limits, PredictServer


@contextmanager
def served() -> Iterator[Callable[..., PredictServer]]:
    """Starts servers; all are closed at the end."""
    started: list[tuple[PredictServer, threading.Thread]] = []

    def begin(path: Path, address: Address = ("127.0.0.1", 0), limits: Limits | None = None) -> PredictServer:
        server = PredictServer(path, address, limits)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        started.append((server, thread))
        return server

    try:
        yield begin
    finally:
        for server, thread in started:
            server.shutdown()
            server.server_close()
            thread.join()


def call(
    server: PredictServer, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """Status and JSON of the answer."""
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=120)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        data = answer.read()
        return answer.status, json.loads(data) if data else None
    finally:
        connection.close()


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()
