"""The server gives wheels by hash, also parts of them, and nothing else, whatever is asked."""

from __future__ import annotations

import http.client
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs import wheel_server
from firmware_configs.wheel_server import WheelServer
from tests.transport.events import eventually

pytestmark = pytest.mark.light
SHA, FILE, DATA = "ab" * 32, "torch-2.7.1+k1-cp311.whl", bytes(range(256)) * 4000
PATH = f"/{SHA}/{FILE}"


class Served:
    """A server on a thread, and what it tells."""

    def __init__(self, kits: Path) -> None:
        self.lines: list[str] = []
        self.server = WheelServer(kits / "_wheels", "127.0.0.1", 0, self.lines.append)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
        link = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
        link.putrequest(method, path, skip_host=True)
        for name, value in headers.items():
            link.putheader(name, value)
        link.endheaders()
        answer = link.getresponse()
        body = answer.read()
        link.close()
        return answer.status, body, dict(answer.getheaders())


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    kits = tmp_path / "kits"
    (kits / "_wheels" / SHA).mkdir(parents=True)
    (kits / "_wheels" / SHA / FILE).write_bytes(DATA)
    (kits / "_wheels/resolved").mkdir()
    (kits / "_wheels/resolved/key.txt").write_text("a lock")
    (kits / "_fleet/authority").mkdir(parents=True)
    for secret in ("_fleet/authority/ca.key", "secret.whl"):
        (kits / secret).write_text("SECRET")
    made = Served(kits)
    yield made
    made.server.shutdown()
    made.server.server_close()
    made.thread.join()


def test_a_wheel_is_served_by_its_hash(served: Served) -> None:
    status, body, headers = served.ask(PATH)
    assert (status, body) == (200, DATA)
    assert (headers["Server"], headers["Connection"], headers["Accept-Ranges"]) == ("edgestill", "close", "bytes")
    status, body, headers = served.ask(PATH, "HEAD")
    assert (status, body, headers["Content-Length"]) == (200, b"", str(len(DATA)))
    assert eventually(lambda: served.lines == [f"127.0.0.1: {FILE}, 1.0 MB"])


@pytest.mark.parametrize(
    ("asked", "status", "start", "end"),
    [
        ("bytes=10-", 206, 10, len(DATA)),
        ("bytes=10-19", 206, 10, 20),
        ("bytes=0-", 200, 0, len(DATA)),
        (f"bytes={len(DATA) - 1}-999999999", 206, len(DATA) - 1, len(DATA)),
        (f"bytes={len(DATA)}-", 416, 0, 0),
        ("bytes=20-10", 416, 0, 0),
        ("bytes=-5", 200, 0, len(DATA)),
        ("bytes=0-1,5-6", 200, 0, len(DATA)),
        ("bytes=99999999999999999999-", 200, 0, len(DATA)),
        ("lines=1-2", 200, 0, len(DATA)),
    ],
)
def test_a_range_of_a_wheel_is_served(served: Served, asked: str, status: int, start: int, end: int) -> None:
    found, body, headers = served.ask(PATH, Range=asked)
    assert (found, body) == (status, DATA[start:end])
    if status == 206:
        assert headers["Content-Range"] == f"bytes {start}-{end - 1}/{len(DATA)}"


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/",
            f"/{SHA}",
            f"/{SHA}/",
            "/resolved/key.txt",
            "/_wheels",
            "*",
            "",
            "//",
            f"/{SHA}/{FILE}/",
            f"/{SHA}/x.whl",
        ),
        *(f"{PATH}?x", f"{PATH}#x", f"/{SHA.upper()}/{FILE}", f"/x/../{SHA}/{FILE}", f"/{SHA}/../{SHA}/{FILE}"),
        *(f"/{SHA}/../../secret.whl", "/../secret.whl", "/../_fleet/authority/ca.key", f"/{SHA}/..%2f..%2fsecret.whl"),
        *(
            f"/{SHA}/%2e%2e/secret.whl",
            f"/{SHA}/.whl",
            f"/{SHA}/..whl",
            f"http://127.0.0.1{PATH}",
            f"/{SHA}/{'a' * 300}.whl",
        ),
    ],
)
def test_nothing_else_is_given(served: Served, path: str) -> None:
    status, body, headers = served.ask(path)
    assert (status, body) == (404, b"Not Found\n")
    assert "Location" not in headers
    assert served.lines == []


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PROPFIND", "x<b>"])
def test_nothing_is_taken(served: Served, method: str) -> None:
    status, body, _ = served.ask(PATH, method)
    assert (status, body) == (501, b"Not Implemented\n")


def test_links_folders_and_pipes_are_not_followed(served: Served, tmp_path: Path) -> None:
    store = tmp_path / "kits/_wheels"
    (store / SHA / "link.whl").symlink_to(tmp_path / "kits/secret.whl")
    (store / SHA / "folder.whl").mkdir()
    os.mkfifo(store / SHA / "pipe.whl")
    (store / ("cd" * 32)).symlink_to(tmp_path / "kits")
    for path in (*(f"/{SHA}/{name}.whl" for name in ("link", "folder", "pipe")), f"/{'cd' * 32}/secret.whl"):
        assert served.ask(path)[0] == 404


def test_garbage_ends_its_own_connection_alone(served: Served) -> None:
    for garbage in (
        b"\x16\x03\x01\x02\x00",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"A" * 70_000,
        b"",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n",
    ):
        with socket.create_connection(("127.0.0.1", served.server.port), timeout=120) as link:
            link.sendall(garbage)
            link.shutdown(socket.SHUT_WR)
            answer = b""
            try:
                while piece := link.recv(4096):
                    answer += piece
            except ConnectionResetError:
                pass
        assert b"SECRET" not in answer
    assert served.ask(PATH)[0] == 200


def test_connections_are_limited_and_come_free_again(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel_server, "MOST_OF_ONE", 2)
    held = [socket.create_connection(("127.0.0.1", served.server.port)) for _ in range(2)]
    assert eventually(lambda: served.server._open.total() == 2)
    with socket.create_connection(("127.0.0.1", served.server.port), timeout=120) as link:
        assert link.recv(100).startswith(b"HTTP/1.1 503 ")
    for link in held:
        link.close()
    assert eventually(lambda: served.server._open.total() == 0)
    assert served.ask(PATH)[0] == 200


def test_a_client_that_sends_nothing_is_disconnected(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel_server._Handler, "timeout", 0.1)
    with socket.create_connection(("127.0.0.1", served.server.port), timeout=120) as link:
        assert link.recv(10) == b""


def test_an_address_that_cannot_be_had_is_told_in_one_line(served: Served, tmp_path: Path) -> None:
    for host, port in (("127.0.0.1", served.server.port), ("192.0.2.1", 8090), ("127.0.0.1", 99999)):
        with pytest.raises(ConfigError, match=rf"^cannot listen on {host}:{port}: "):
            WheelServer(tmp_path, host, port, print)
