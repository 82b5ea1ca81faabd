"""Which version of MQTT a broker answers in."""

import socket
from pathlib import Path

import pytest

from tests.brokers import Embedded, Mosquitto
from tests.transport.scripted import CONNACK5, Scripted
from transport.config import BrokerConfig
from transport.probe import CONNECT, shake_hands, speaks_mqtt5

pytestmark = pytest.mark.light


@pytest.mark.broker
def test_the_probe_tells_the_versions_apart(mosquitto: Mosquitto) -> None:
    assert speaks_mqtt5(mosquitto.config)
    with Embedded() as embedded:
        assert not speaks_mqtt5(embedded.config)
    with pytest.raises(ConnectionRefusedError):
        speaks_mqtt5(embedded.config)


@pytest.mark.broker
def test_a_refusal_in_version_5_is_still_version_5(tmp_path: Path) -> None:
    with Mosquitto(tmp_path / "m", anonymous=False) as m:
        assert speaks_mqtt5(m.config)


@pytest.mark.parametrize(
    ("answer", "is_5"),
    [
        (CONNACK5, True),
        (b"\x20\x03\x00\x84\x00", True),  # unsupported version, said in version 5
        (b"\x20\x02\x00\x01", False),  # unacceptable version, said in 3.1.1
        (b"\x20\x02\x00\x00", False),
        (b"", False),
        (b"\x20\x03\x00", False),
        (b"HTTP/1.1 400 Bad Request\r\n", False),
    ],
)
def test_only_a_whole_connack_of_version_5_counts(answer: bytes, is_5: bool) -> None:
    with Scripted(answer, close=True) as broker:
        assert speaks_mqtt5(broker.config) is is_5


def test_a_broker_that_says_nothing_is_an_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transport.probe.CONNECT_TIMEOUT", 0.05)
    with Scripted(b"") as broker:
        assert not speaks_mqtt5(broker.config)


def test_the_question_says_its_own_length() -> None:
    assert CONNECT[1] == len(CONNECT) - 2


def test_a_handshake_sends_no_mqtt() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        config = BrokerConfig(port=server.getsockname()[1])
        shake_hands(config)
        connection, _ = server.accept()
        with connection:
            assert connection.recv(100) == b""
    with pytest.raises(ConnectionRefusedError):
        shake_hands(config)
