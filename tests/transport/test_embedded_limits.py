"""What one client can make the embedded broker hold is bounded."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.transport.events import connected, eventually, retained, wait_for
from transport import embedded_limits
from transport.config import BrokerConfig
from transport.embedded import EmbeddedBroker
from transport.link import Link, Received

pytest.importorskip("amqtt")
pytestmark = pytest.mark.light
PINGREQ, PINGRESP = b"\xc0\x00", b"\xd0\x00"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as started:
        yield started


@contextmanager
def client(broker: EmbeddedBroker, name: str, *filters: str) -> Iterator[Link]:
    link = connected(Link(BrokerConfig(port=broker.port), client_id=name, filters=list(filters)))
    try:
        yield link
    finally:
        link.stop()


def kept(broker: EmbeddedBroker, pattern: str) -> dict[str, bytes]:
    """What a newcomer is given, by topic."""
    return {message.topic: message.payload for message in retained(BrokerConfig(port=broker.port), pattern)}


def test_a_client_has_so_many_messages_and_bytes_retained(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_limits, "MAX_RETAINED", 20)
    monkeypatch.setattr(embedded_limits, "RETAINED_BYTES", 10_000)
    with client(broker, "greedy") as greedy, client(broker, "large") as large, client(broker, "honest") as honest:
        for number in range(100):
            assert greedy.publish(f"greedy/{number}", b"x", retain=True)
        for number in range(10):
            assert large.publish(f"large/{number}", bytes(4000), retain=True)
        assert honest.publish("honest/state", b"online", retain=True)
        assert eventually(lambda: not (greedy.pending() or large.pending() or honest.pending()))
        assert len(kept(broker, "greedy/#")) == 20
        assert len(kept(broker, "large/#")) == 2
        assert kept(broker, "honest/#") == {"honest/state": b"online"}
        assert greedy.publish("greedy/0", b"", retain=True)  # cleared, there is room for another
        assert greedy.publish("greedy/100", b"new", retain=True)
        assert eventually(lambda: greedy.pending() == 0)
        assert kept(broker, "greedy/#").keys() == {f"greedy/{n}" for n in (*range(1, 20), 100)}


def test_chunks_on_their_way_up_are_delivered_and_not_retained(broker: EmbeddedBroker) -> None:
    filters = ("edgestill/1/f/+/up", "edgestill/1/f/+/up/+/+")
    with client(broker, "aggregator", *filters) as aggregator, client(broker, "pi-01") as device:
        for topic in ("up", "up/9f/3"):
            assert device.publish(f"edgestill/1/f/pi-01/{topic}", b"chunk", retain=True)
            assert wait_for(aggregator, Received).payload == b"chunk"
        assert eventually(lambda: device.pending() == 0)
    assert kept(broker, "edgestill/#") == {}


def test_a_packet_that_is_too_large_is_not_read(broker: EmbeddedBroker) -> None:
    with socket.create_connection(("127.0.0.1", broker.port), timeout=60) as hostile:
        hostile.sendall(b"\x10\x11\x00\x04MQTT\x04\x02\x00\x3c\x00\x05large")
        assert hostile.recv(4) == b"\x20\x02\x00\x00"
        hostile.sendall(b"\x30\xff\xff\xff\x7f\x00\x01t" + bytes(1000))  # the first bytes of 256 MB
        assert hostile.recv(1) == b""
    with client(broker, "honest", "t") as honest:
        assert honest.publish("t", b"x")
        assert wait_for(honest, Received).payload == b"x"


def test_a_client_that_does_not_read_holds_nobody_up(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_limits, "UNREAD", 2**20)
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        deaf.settimeout(60)
        deaf.connect(("127.0.0.1", broker.port))
        deaf.sendall(b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04deaf")
        assert deaf.recv(4) == b"\x20\x02\x00\x00"
        deaf.sendall(b"\x82\x06\x00\x01\x00\x01t\x00")
        assert deaf.recv(5) == b"\x90\x03\x00\x01\x00"
        with client(broker, "listener", "t") as listener, client(broker, "speaker") as speaker:
            for _ in range(200):
                assert speaker.publish("t", bytes(100_000), qos=0)
                assert len(wait_for(listener, Received).payload) == 100_000
        deaf.sendall(PINGREQ)
        came, tail = 0, b""
        while not tail.endswith(PINGRESP):  # behind all that was kept
            chunk = deaf.recv(2**20)
            assert chunk
            came, tail = came + len(chunk), (tail + chunk)[-2:]
        assert came < 12_000_000  # of 20,000,000 that were sent: the rest was not kept for it
