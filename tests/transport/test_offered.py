"""What a broker lacks is one line with a remedy: at the announcement, and at a real connection."""

from __future__ import annotations

import logging

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.transport.events import wait_for
from tests.transport.scripted import CONNACK5, Scripted
from transport.link import Connected, Disconnected, Link
from transport.offered import LEAST_PACKET, lacking, warnings
from wire.chunks import DEFAULT_CHUNK

pytestmark = pytest.mark.light
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
