"""Predictions over HTTP: answers, reloads, bounds. The texts of single answers: test_handler.py."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.errors import ConfigError
from edge_agent.predict.server import Limits, PredictServer, serve_until
from tests.edge_agent.predict.boards import images, leave_model
from tests.edge_agent.predict.http_calls import call, npy, served

pytestmark = pytest.mark.light
Serve = Callable[..., PredictServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with served() as begin:
        yield begin


def test_a_model_is_served_from_its_first_round_on_and_reloaded(tmp_path: Path, serve: Serve) -> None:
    server = serve(tmp_path)
    assert call(server, "GET", "/health")[0] == 503
    assert call(server, "POST", "/predict", npy(images(1)))[0] == 503
    leave_model(tmp_path)
    code, answer = call(server, "POST", "/predict", npy(images(2)))
    assert (code, [row["label"] for row in answer["predictions"]]) == (200, ["ant", "bee"])
    leave_model(tmp_path, round=9)
    assert call(server, "GET", "/health")[1] == {
        "status": "ok",
        "prototype": "tiny:fp32",
        "round": 9,
        "model": call(server, "GET", "/card")[1]["sha256"],
    }
    (tmp_path / "current.json").write_text("{")
    assert call(server, "GET", "/health")[1]["round"] == 9  # damaged: the model before stays in use


def test_a_unix_socket_serves_as_well_and_goes_with_the_server(tmp_path: Path, serve: Serve) -> None:
    leave_model(tmp_path / "state")
    server = serve(tmp_path / "state", tmp_path / "p.sock")
    assert (tmp_path / "p.sock").stat().st_mode & 0o777 == 0o660
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "p.sock"))
        client.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(4096), b""))
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["status"] == "ok"
    server.shutdown()
    server.server_close()
    assert not (tmp_path / "p.sock").exists()


def test_requests_at_a_time_are_bounded(tmp_path: Path, serve: Serve) -> None:
    leave_model(tmp_path)
    server = serve(tmp_path, limits=Limits(requests=1))
    with socket.create_connection(server.server_address[:2]) as slow:
        slow.sendall(b"POST /predict HTTP/1.0\r\nContent-Length: 100\r\n\r\n")
        until = time.monotonic() + 120
        while call(server, "POST", "/predict", npy(images(1)))[0] != 503:
            assert time.monotonic() < until
        assert call(server, "GET", "/health")[0] == 200
    while call(server, "POST", "/predict", npy(images(1)))[0] != 200:
        assert time.monotonic() < until


def test_a_client_that_says_nothing_is_not_waited_for(tmp_path: Path, serve: Serve) -> None:
    leave_model(tmp_path)
    server = serve(tmp_path, limits=Limits(silent_s=0.2, connections=2))
    with socket.create_connection(server.server_address[:2]) as silent:
        silent.settimeout(120)
        assert silent.recv(100) == b""
    with socket.create_connection(server.server_address[:2]) as slow:
        slow.settimeout(120)
        slow.sendall(b"POST /predict HTTP/1.0\r\nContent-Length: 100\r\n\r\nhalf")
        answer = b"".join(iter(lambda: slow.recv(1000), b""))  # head and body may come apart
        assert b"the request ended after 4 of 100 bytes" in answer


def test_connections_are_bounded(tmp_path: Path, serve: Serve) -> None:
    leave_model(tmp_path)
    server = serve(tmp_path, limits=Limits(connections=1))
    with socket.create_connection(server.server_address[:2]):
        until = time.monotonic() + 120
        while True:  # until the first connection has its thread
            assert time.monotonic() < until
            try:
                call(server, "GET", "/health")
            except (OSError, http.client.HTTPException):
                break


def test_an_address_in_use_is_told(tmp_path: Path, serve: Serve) -> None:
    server = serve(tmp_path)
    with pytest.raises(ConfigError, match="Address already in use; give another port"):
        PredictServer(tmp_path, server.server_address[:2])
    with pytest.raises(
        ConfigError, match=r"--serve unix:/.*/absent/p\.sock: No such file or directory; give a path in"
    ):
        PredictServer(tmp_path, tmp_path / "absent" / "p.sock")


def test_serving_ends_when_it_is_told_to(tmp_path: Path) -> None:
    server = PredictServer(tmp_path, tmp_path / "p.sock")
    stops: list[Callable[[], None]] = []
    thread = threading.Thread(target=serve_until, args=(server, stops.append))
    thread.start()
    until = time.monotonic() + 120
    while not stops:
        assert time.monotonic() < until
    stops[0]()
    thread.join(120)
    assert not thread.is_alive()
    assert not (tmp_path / "p.sock").exists()
