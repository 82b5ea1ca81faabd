"""A broker that loses acknowledgements is left and found again; one that is only slow is not."""

from __future__ import annotations

import socket
import threading

import pytest

from tests.transport.events import eventually, wait_for
from transport.config import BrokerConfig
from transport.link import Connected, Disconnected, Link
from transport.outbox import Outbox

pytestmark = pytest.mark.light
CONNECT, PUBLISH, UNSUBSCRIBE = 0x10, 0x30, 0xA0


class Forgetful:
    """Speaks MQTT 3.1.1; acknowledges what `acks` says: messages, requests, or both."""

    def __init__(self, acks: set[int]) -> None:
        self._acks = acks
        self._server = socket.create_server(("127.0.0.1", 0))
        self.config = BrokerConfig(port=self._server.getsockname()[1], protocol="3.1.1")
        self.connections = 0
        self.heard: list[int] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Forgetful:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._talk, args=[sock], daemon=True).start()

    def _talk(self, sock: socket.socket) -> None:
        file = sock.makefile("rb")
        while head := file.read(2):
            body = file.read(head[1])  # all of the test's packets are shorter than 128 bytes
            kind = head[0] & 0xF0
            self.heard.append(kind)
            if kind == CONNECT:
                sock.sendall(b"\x20\x02\0\0")
            elif kind == PUBLISH and PUBLISH in self._acks:
                end = 2 + int.from_bytes(body[:2], "big")
                sock.sendall(b"\x40\x02" + body[end : end + 2])
            elif kind == UNSUBSCRIBE and UNSUBSCRIBE in self._acks:
                sock.sendall(b"\xb0\x02" + body[:2])


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transport.session.ACK_S", 0.3)
    monkeypatch.setattr("transport.session.TICK", 0.05)


def test_where_later_requests_are_answered_and_a_message_is_not_the_connection_is_made_anew() -> None:
    with Forgetful({UNSUBSCRIBE}) as broker, Link(broker.config, client_id="a", filters=[]) as link:
        wait_for(link, Connected)
        assert link.publish("t", b"x")
        assert wait_for(link, Disconnected).reason == "the broker has lost an acknowledgement"
        wait_for(link, Connected)
        assert broker.connections == 2


def test_where_nothing_is_answered_the_broker_is_only_slow() -> None:
    with Forgetful(set()) as broker, Link(broker.config, client_id="a", filters=[]) as link:
        wait_for(link, Connected)
        assert link.publish("t", b"x")
        assert eventually(lambda: broker.heard.count(UNSUBSCRIBE) >= 2)  # it is asked again
        assert (broker.connections, link.connected) == (1, True)


def test_where_messages_are_acknowledged_nothing_is_asked() -> None:
    with Forgetful({PUBLISH, UNSUBSCRIBE}) as broker, Link(broker.config, client_id="a", filters=[]) as link:
        wait_for(link, Connected)
        for _ in range(30):
            assert link.publish("t", b"x")
        assert eventually(lambda: link.pending() == 0)
        assert not eventually(lambda: UNSUBSCRIBE in broker.heard, 0.6)


def test_the_oldest_message_is_the_next_to_be_done() -> None:
    box = Outbox(100)
    assert box.oldest() is None
    box.add(1, 10)
    number, since = box.oldest() or (0, 0.0)
    box.add(2, 10)
    assert box.oldest() == (1, since)
    box.done(2)
    assert box.oldest() == (1, since)
    box.add(3, 10)
    box.done(1)
    assert box.oldest()[0] == 3
    assert box.oldest()[1] > since
    assert number == 1
