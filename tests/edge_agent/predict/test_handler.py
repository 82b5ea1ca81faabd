"""What a single HTTP request is answered: always JSON, one line, no traceback."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from edge_agent.predict.server import Limits, PredictServer
from tests.edge_agent.predict.boards import images, leave_model
from tests.edge_agent.predict.http_calls import call, npy, served

pytestmark = pytest.mark.light


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PredictServer]:
    leave_model(tmp_path)
    with served() as begin:
        yield begin(tmp_path, limits=Limits(max_bytes=10_000))


def test_the_card_tells_what_the_model_expects(server: PredictServer) -> None:
    code, card = call(server, "GET", "/card")
    assert (code, card["class_names"], card["input"]["shape"]) == (200, ["ant", "bee", "cat"], [3, 4, 2])


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "code", "told"),
    [
        ("GET", "/", None, {}, 404, "no such path"),
        ("POST", "/", b"x", {}, 404, "no such path"),
        ("PUT", "/predict", b"x", {}, 501, "Unsupported method"),
        ("POST", "/predict", b"", {}, 400, "the request is empty"),
        ("POST", "/predict", b"hello", {}, 400, "not an .npy file, and not a readable picture"),
        ("POST", "/predict", npy(images(1).transpose(0, 2, 3, 1)), {}, 400, "did you mean to transpose"),
        ("POST", "/predict", b"x" * 10_001, {}, 413, "the limit is 10000"),
        ("POST", "/predict", None, {"Content-Length": "9" * 40}, 413, "the limit is 10000"),
        ("POST", "/predict", None, {"Content-Length": "-1"}, 411, "Content-Length"),
        ("POST", "/predict", None, {"Transfer-Encoding": "chunked"}, 411, "Content-Length"),
        ("GET", "/health", None, {"Host": "evil.example"}, 403, "not this machine"),
        ("POST", "/predict", b"x", {"Host": "evil.example:9000"}, 403, "not this machine"),
    ],
)
def test_errors_are_one_line_of_json(
    server: PredictServer, method: str, path: str, body: bytes | None, headers: dict[str, str], code: int, told: str
) -> None:
    status, answer = call(server, method, path, body, headers)
    assert status == code
    assert list(answer) == ["error"]
    assert told in answer["error"]
    assert "\n" not in answer["error"]
    assert "Traceback" not in answer["error"]


def test_what_is_not_http_is_answered_too_and_ends_nothing(server: PredictServer) -> None:
    for said in (b"\x16\x03\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"GET /health HTTP/9.9\r\n\r\n", b"G" * 70_000 + b"\r\n"):
        with socket.create_connection(server.server_address[:2]) as client:
            client.settimeout(120)
            client.sendall(said)
            with suppress(ConnectionResetError):  # it does not read on
                assert b"Traceback" not in client.recv(4096)
    assert call(server, "GET", "/health")[0] == 200


def test_a_fault_of_ours_costs_one_request(server: PredictServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("edge_agent.predict.handler.answer_request", fail)
    assert call(server, "POST", "/predict", b"x") == (500, {"error": "internal error: RuntimeError"})
    monkeypatch.undo()
    assert call(server, "POST", "/predict", npy(images(1)))[0] == 200
