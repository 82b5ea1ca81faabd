"""Why a connection failed, and what its broker lacks, in one line; at a real connection too."""

import errno
import logging
import os
import socket
import ssl
from datetime import datetime, timezone
from pathlib import Path

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.brokers import Mosquitto
from tests.transport.events import wait_for
from tests.transport.scripted import CONNACK5, Scripted
from transport.link import Connected, Disconnected, Link
from transport.reasons import LEAST_PACKET, closed, explain, lacking, refusal, warnings
from wire.chunks import DEFAULT_CHUNK

pytestmark = pytest.mark.light


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "connection refused; is a broker running there?"),
        (socket.gaierror(-2, "Name or service not known"), "unknown host: Name or service not known"),
        (TimeoutError("timed out"), "no answer in time"),
        (OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH)), "network is unreachable"),
        (ValueError("a\nb"), "a b"),
        (ValueError(), "ValueError"),
        (
            ssl.SSLError(1, "[SSL: SSLV3_ALERT_CERTIFICATE_EXPIRED] ssl/tls alert certificate expired (_ssl.c:1)"),
            "our client certificate has expired; make a new one",
        ),
        (
            ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)"),
            "the broker does not speak TLS on this port; remove [broker.tls] or fix the port",
        ),
    ],
)
def test_an_error_is_explained(error: BaseException, line: str) -> None:
    assert explain(error) == line


@pytest.mark.parametrize(
    ("code", "message", "hint"),
    [
        (9, "certificate is not yet valid", "this machine's clock says 1980-01-06 00:00 UTC"),
        (10, "certificate has expired", "this machine's clock says 1980-01-06 00:00 UTC"),
        (62, "Hostname mismatch.", "check 'host' and 'ca' in [broker]"),
        (20, "unable to get local issuer certificate", "check 'host' and 'ca' in [broker]"),
    ],
)
def test_a_wrong_clock_is_not_told_as_a_wrong_host(
    code: int, message: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transport.reasons._now", lambda: datetime(1980, 1, 6, tzinfo=timezone.utc))
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, message
    assert explain(error) == f"the broker's certificate is not valid: {message.rstrip('.')}; {hint}"


def test_a_refusal_by_the_broker_is_quoted_with_advice() -> None:
    assert refusal("Not authorized") == "the broker says: Not authorized; check 'username' and 'password' in [broker]"
    assert refusal("Server busy") == "the broker says: Server busy"


@pytest.mark.parametrize(
    ("detail", "answered", "tls", "line"),
    [
        ("", True, False, "the broker closed the connection"),
        ("failed to receive on socket: [Errno 104] Connection reset by peer", True, False, "connection reset by peer"),
        ("", False, False, "the broker closed the connection before it answered; does it expect TLS?"),
        (
            "",
            False,
            True,
            "the broker closed the connection before it answered; does it speak TLS on this port, "
            "and take our certificate?",
        ),
        (
            "failed to receive on socket: [SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required",
            False,
            True,
            "the broker wants a client certificate; give 'cert' and 'key' in [broker.tls]",
        ),
    ],
)
def test_a_closed_connection_is_explained_by_what_came_before(
    detail: str, answered: bool, tls: bool, line: str
) -> None:
    assert closed(detail, answered=answered, tls=tls) == line


#                     type, length | flags, success | properties: length, RetainAvailable 0
NO_RETAIN = b"\x20\x05" + b"\x00\x00" + b"\x02\x25\x00"
QOS_0 = b"\x20\x05" + b"\x00\x00" + b"\x02\x24\x00"
NO_WILDCARDS = b"\x20\x05" + b"\x00\x00" + b"\x02\x28\x00"
SMALL = b"\x20\x08" + b"\x00\x00" + b"\x05\x27" + (50_000).to_bytes(4, "big")
GRANTS_0 = b"\x90\x04\x00\x01\x00\x00"  # to packet 1, no properties


def announced(**values: int) -> Properties:
    properties = Properties(PacketTypes.CONNACK)  # type: ignore[no-untyped-call]
    for name, value in values.items():
        setattr(properties, name, value)
    return properties


@pytest.mark.parametrize("properties", [None, announced(), announced(RetainAvailable=1, MaximumQoS=1)])
def test_a_broker_that_announces_nothing_less_is_used(properties: Properties | None) -> None:
    assert lacking(properties, ["a/+/b"]) == ""


def test_wildcards_are_missed_by_those_alone_who_subscribe_with_them() -> None:
    without = announced(WildcardSubscriptionAvailable=0)
    assert lacking(without, ["a/b"]) == ""
    assert "the aggregator needs" in lacking(without, ["a/b", "a/+/b"])


def test_a_chunk_fits_into_the_least_packet() -> None:
    assert DEFAULT_CHUNK + 1024 < LEAST_PACKET
    assert warnings(LEAST_PACKET, [1, 1]) == []
    assert len(warnings(LEAST_PACKET - 1, [1, 0])) == 2


@pytest.mark.parametrize(
    ("connack", "line"),
    [
        (NO_RETAIN, "the broker keeps no retained messages, which jobs and models need; enable them"),
        (QOS_0, "the broker offers QoS 0 only, and jobs need QoS 1; enable it"),
        (NO_WILDCARDS, "the broker offers no subscriptions with wildcards"),
    ],
)
def test_a_broker_that_cannot_be_used_is_a_reason_not_to_connect(connack: bytes, line: str) -> None:
    with Scripted(CONNACK5, connack) as broker, Link(broker.config, client_id="a", filters=["t/+"]) as link:
        reason = wait_for(link, Disconnected).reason
        assert reason.startswith(line)
        assert reason.endswith("see docs/brokers.md")
        assert not link.connected


def test_what_works_worse_is_said_at_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.WARNING, "edgestill.transport"),
        Scripted(CONNACK5, SMALL + GRANTS_0) as broker,
        Link(broker.config, client_id="a", filters=["t"]) as link,
    ):
        wait_for(link, Connected)
        lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(": ")[2] for line in lines] == warnings(50_000, [0])
    assert "it takes packets of 50,000 bytes at most" in lines[0]


@pytest.mark.broker
def test_a_mosquitto_that_keeps_nothing_is_a_reason_with_a_remedy(tmp_path: Path) -> None:
    with Mosquitto(tmp_path / "m", ["retain_available false"]) as broker:
        for will in (None, ("state", b"lost")):
            with Link(broker.config, client_id="a", filters=["t"], will=will) as link:
                assert "enable them, see docs/brokers.md" in wait_for(link, Disconnected).reason
