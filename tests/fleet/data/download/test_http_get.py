"""One GET against a server that says exactly what the test tells it to."""

import socket
import threading
from collections.abc import Iterator

import pytest

from fleet.data.download.http_get import Answer, Gone, Interrupted, get


class Scripted:
    """Answers every connection with the same bytes and keeps what it was asked."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.reply = b""
        self.asked: list[str] = []
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}/f"

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return  # closed: the test is over
            with peer:
                asked = b""
                while b"\r\n\r\n" not in asked:
                    asked += peer.recv(4096)
                self.asked.append(asked.decode())
                peer.sendall(self.reply)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    scripted = Scripted()
    yield scripted
    scripted.listener.shutdown(socket.SHUT_RDWR)
    scripted.listener.close()
    scripted.thread.join()


def reply(status: str, *headers: str, body: bytes = b"") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "Connection: close", "", ""]).encode() + body


def read_all(answer: Answer) -> bytes:
    data = b""
    while chunk := answer.read(3):
        data += chunk
    return data


def test_a_whole_file(server: Scripted) -> None:
    server.reply = reply("200 OK", "Content-Length: 5", 'ETag: "e"', body=b"hello")
    with get(server.url) as answer:
        assert (answer.start, answer.total, answer.validator) == (0, 5, '"e"')
        assert read_all(answer) == b"hello"
    assert "Range" not in server.asked[0]
    assert "Accept-Encoding: identity" in server.asked[0]


def test_the_rest_of_a_file(server: Scripted) -> None:
    server.reply = reply("206 Partial Content", "Content-Length: 2", "Content-Range: bytes 3-4/5", body=b"lo")
    with get(server.url, start=3, validator='"e"') as answer:
        assert (answer.start, answer.total) == (3, 5)
        assert read_all(answer) == b"lo"
    assert "Range: bytes=3-" in server.asked[0]
    assert 'If-Range: "e"' in server.asked[0]


def test_a_weak_etag_gives_way_to_the_date(server: Scripted) -> None:
    date = "Mon, 01 Jan 2024 00:00:00 GMT"
    server.reply = reply("200 OK", "Content-Length: 0", 'ETag: W/"e"', f"Last-Modified: {date}")
    with get(server.url) as answer:
        assert answer.validator == date


@pytest.mark.parametrize("sent", ["bytes 2-4/5", "bytes */5", "garbage", ""])
def test_another_range_than_asked_for_is_refused(server: Scripted, sent: str) -> None:
    server.reply = reply("206 Partial Content", "Content-Length: 2", f"Content-Range: {sent}", body=b"lo")
    with pytest.raises(Gone, match="a different range"):
        get(server.url, start=3)


@pytest.mark.parametrize(("header", "total"), [("Content-Range: bytes */5", 5), ("X-Nothing: 1", None)])
def test_nothing_left_to_send(server: Scripted, header: str, total: int | None) -> None:
    server.reply = reply("416 Range Not Satisfiable", header, "Content-Length: 0")
    with get(server.url, start=5) as answer:
        assert (answer.nothing_left, answer.total) == (True, total)


@pytest.mark.parametrize(("status", "error"), [("404 Not Found", Gone), ("403 No", Gone), ("503 Busy", Interrupted)])
def test_refusals_are_final_or_not(server: Scripted, status: str, error: type[Exception]) -> None:
    server.reply = reply(status, "Content-Length: 0")
    with pytest.raises(error, match=f"it answers {status}"):
        get(server.url)


def test_a_body_cut_short_ends_early_and_does_not_raise(server: Scripted) -> None:
    server.reply = reply("200 OK", "Content-Length: 9", body=b"hello")
    with get(server.url) as answer:
        assert read_all(answer) == b"hello"
        assert answer.total == 9


def test_a_chunked_body_cut_short_ends_early_too(server: Scripted) -> None:
    server.reply = reply("200 OK", "Transfer-Encoding: chunked", body=b"5\r\nhel")
    with get(server.url) as answer:
        assert read_all(answer) == b"hel"
        assert answer.total is None


@pytest.mark.parametrize("garbage", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 abc\r\n\r\n"])
def test_what_does_not_speak_http_may_be_tried_again(server: Scripted, garbage: bytes) -> None:
    server.reply = garbage
    with pytest.raises(Interrupted, match="unreachable"):
        get(server.url)
