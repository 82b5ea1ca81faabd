"""One connection: what comes before it is ready, and lost acknowledgements.

A broker that loses acknowledgements is left and found again; one that is only slow is not.
"""

from __future__ import annotations

import socket
import threading

import pytest

from core.errors import TransportError
from tests.transport.events import eventually, wait_for
from tests.transport.scripted import Scripted
from transport.client import MAX_PACKET, V311, Identity
from transport.config import BrokerConfig
from transport.events import Inbox
from transport.link import Connected, Disconnected, Link, Received
from transport.session import Session, Settings
from transport.waker import Waker

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


def session(broker: BrokerConfig) -> tuple[Session, Inbox]:
    inbox = Inbox(1_000_000, lambda: None)
    settings = Settings(broker=broker, identity=Identity("a", ("t",), None), outbox=1000, level=V311)
    return Session(settings, inbox, Waker()), inbox


def test_messages_before_the_subscription_is_confirmed_come_after_connected() -> None:
    connack, publish, suback = b"\x20\x02\0\0", b"\x31\x04\0\x01t1", b"\x90\x03\0\x01\x01"
    with Scripted(connack + publish + suback, close=True) as broker:
        carried, inbox = session(broker.config)
        carried.run()
    assert [inbox.get(0), inbox.get(0), inbox.get(0)] == [Connected(), Received("t", b"1", True), None]
    assert carried.reason
    assert not carried.ready


def test_a_subscription_that_is_refused_ends_it_before_it_was_ready() -> None:
    with Scripted(b"\x20\x02\0\0" + b"\x90\x03\0\x01\x80", close=True) as broker:
        carried, inbox = session(broker.config)
        carried.run()
    assert carried.reason == "the broker refuses to subscribe us to 't'; fix its access list"
    assert inbox.get(0) is None


def test_without_a_connection_nothing_is_taken_and_what_is_too_large_is_refused() -> None:
    idle, _ = session(BrokerConfig())
    assert not idle.publish("t", b"1", 1, False, None)
    assert not idle.subscribe(["t"])
    assert not idle.unsubscribe(["t"])
    assert idle.pending() == 0
    with pytest.raises(TransportError, match="send chunks"):
        idle.publish("t", bytes(MAX_PACKET), 1, False, None)
