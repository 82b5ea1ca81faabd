"""A paho client for one connection: identity, TLS, limits."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from core.errors import TransportError
from transport.config import BrokerConfig
from transport.reader import MAX_INCOMING, Reader
from transport.tls import tls_context

__all__ = ["IN_FLIGHT", "MAX_PACKET", "V5", "V311", "Identity", "check_size", "connect", "new_client", "with_expiry"]

V5, V311 = MQTTProtocolVersion.MQTTv5, MQTTProtocolVersion.MQTTv311
MAX_PACKET = 2_000_000  # Mosquitto 2.1's default limit, in bytes of the whole packet
OVERHEAD = 24  # of a PUBLISH besides topic and payload, at most: header, lengths, number, properties
IN_FLIGHT = 20  # QoS 1 messages at a time without an acknowledgement
CONNECT_TIMEOUT = 5.0  # of TCP, and of TLS


@dataclass(frozen=True, slots=True)
class Identity:
    """Client id, subscriptions and will."""

    client_id: str
    filters: tuple[str, ...]
    will: tuple[str, bytes] | None


def check_size(topic: str, payload: bytes, limit: int = MAX_PACKET) -> int:
    """Upper bound of the packet size; TransportError if the broker would close the connection over it."""
    size = OVERHEAD + len(topic.encode()) + len(payload)
    if size > limit:
        raise TransportError(f"message to {topic!r}: a packet of {size} bytes, the broker takes {limit}; send chunks")
    return size


def new_client(
    broker: BrokerConfig,
    level: MQTTProtocolVersion,
    identity: Identity,
    in_flight: int,
    on_error: Callable[[str], None],
) -> Reader:
    """A client that is not connected yet; `on_error` receives errors logged by paho."""
    client = Reader(
        CallbackAPIVersion.VERSION2,
        client_id=identity.client_id,
        clean_session=None if level == V5 else True,
        protocol=level,
        reconnect_on_failure=False,
    )
    client.connect_timeout = CONNECT_TIMEOUT
    client.max_inflight_messages_set(in_flight)
    client.enable_logger(_error_logger(on_error))
    client.on_socket_open = _no_delay
    client.on_socket_register_write = lambda *_: None  # tells paho that only our loop writes to the socket
    if identity.will is not None:
        topic, payload = identity.will
        client.will_set(topic, payload, qos=1, retain=True)
    if broker.username is not None:
        client.username_pw_set(broker.username, broker.password)
    if broker.tls is not None:
        client.tls_set_context(tls_context(broker.tls))
    return client


def connect(client: mqtt.Client, broker: BrokerConfig) -> None:
    """Open the socket and queue CONNECT: a clean session that ends with the connection."""
    if client.protocol != V5:
        client.connect(broker.host, broker.port, broker.keepalive_s)
        return
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = 0
    properties.MaximumPacketSize = MAX_INCOMING
    client.connect(broker.host, broker.port, broker.keepalive_s, clean_start=True, properties=properties)


def with_expiry(client: mqtt.Client, expiry_s: int | None) -> Properties | None:
    """Properties of a message that expires after so many seconds; None for MQTT versions without expiry."""
    if expiry_s is None or client.protocol != V5:
        return None
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.MessageExpiryInterval = expiry_s
    return properties


def _no_delay(_client: mqtt.Client, _data: object, sock: mqtt.SocketLike) -> None:
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # type: ignore[attr-defined]


def _error_logger(on_error: Callable[[str], None]) -> logging.Logger:
    """A logger that passes errors on; paho's on_log would format a line for every packet."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            on_error(record.getMessage())

    logger = logging.Logger("paho", logging.ERROR)
    logger.addHandler(Handler())
    return logger
