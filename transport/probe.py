"""Detect MQTT 5 support of the broker with a minimal CONNECT.

A broker of MQTT 3.1.1 must reject version 5 with a return code, but amqtt parses the packet as its own version, reads
our properties as a length, and waits indefinitely. The 15 bytes below are valid for it as well, and it rejects them.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
from collections.abc import Iterator

from transport.client import CONNECT_TIMEOUT
from transport.config import BrokerConfig
from transport.tls import tls_context

__all__ = ["shake_hands", "speaks_mqtt5"]

#                type, length | protocol name     | version 5, clean start, keep-alive 5 s, no properties, no client id
CONNECT = bytes([0x10, 13]) + b"\x00\x04MQTT" + bytes([5, 0x02, 0, 5, 0, 0, 0])
DISCONNECT = bytes([0xE0, 0])
CONNACK = 0x20
TICKETS = 1.0  # seconds to wait for them
ANSWER = 3  # bytes after the first two in a CONNACK of version 5, at least; in one of 3.1.1: 2


def speaks_mqtt5(broker: BrokerConfig) -> bool:
    """Whether the broker answers in version 5, even with a rejection; OSError if there is no broker."""
    with _connected(broker) as sock:
        return _ask(sock)


def shake_hands(broker: BrokerConfig) -> None:
    """Connect as far as TLS, and send no MQTT: OSError if there is no broker, or it does not accept our certificate."""
    with _connected(broker):
        pass


@contextlib.contextmanager
def _connected(broker: BrokerConfig) -> Iterator[socket.socket]:
    with socket.create_connection((broker.host, broker.port), timeout=CONNECT_TIMEOUT) as tcp:
        if broker.tls is None:
            yield tcp
            return
        with tls_context(broker.tls).wrap_socket(tcp, server_hostname=broker.host) as tls:
            _hear_refusal(tls)
            yield tls


def _hear_refusal(tls: ssl.SSLSocket) -> None:
    """SSLError if the broker does not accept our certificate.

    In TLS 1.3 our side of the handshake is done before the broker has looked at the certificate. If we send first, the
    connection is reset and the reason is lost. A broker that accepts us sends session tickets.
    """
    poller = select.poll()
    poller.register(tls.fileno(), select.POLLIN)
    if tls.version() == "TLSv1.3" and poller.poll(TICKETS * 1000):
        tls.setblocking(False)
        with contextlib.suppress(ssl.SSLWantReadError, ConnectionError):
            tls.recv(1)
        tls.settimeout(CONNECT_TIMEOUT)


def _ask(sock: socket.socket) -> bool:
    answer = b""
    with contextlib.suppress(TimeoutError, ConnectionError):  # an old broker closes the connection or does not answer
        sock.sendall(CONNECT)
        while len(answer) < 2 + ANSWER and (more := sock.recv(64)):
            answer += more
            if len(answer) == 4 and answer[1] == 2:
                return False  # a whole CONNACK of 3.1.1
        sock.sendall(DISCONNECT)
    return len(answer) >= 2 + ANSWER and answer[0] == CONNACK
