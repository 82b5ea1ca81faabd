"""Does the broker speak MQTT 5? Asked with the shortest CONNECT there is.

A broker of MQTT 3.1.1 must refuse version 5 politely, but amqtt reads on as if it were its own version, takes our
properties for a length, and waits indefinitely. The 15 bytes below make sense to it as well, and it refuses them.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl

from transport.client import CONNECT_TIMEOUT
from transport.config import BrokerConfig
from transport.tls import tls_context

__all__ = ["speaks_mqtt5"]

#                type, length | protocol name     | version 5, clean start, keep-alive 5 s, no properties, no client id
CONNECT = bytes([0x10, 13]) + b"\x00\x04MQTT" + bytes([5, 0x02, 0, 5, 0, 0, 0])
DISCONNECT = bytes([0xE0, 0])
CONNACK = 0x20
TICKETS = 1.0  # seconds to wait for them
ANSWER = 3  # bytes after the first two in a CONNACK of version 5, at least; in one of 3.1.1: 2


def speaks_mqtt5(broker: BrokerConfig) -> bool:
    """Whether the broker answers in version 5, be it a refusal; OSError if there is none."""
    with socket.create_connection((broker.host, broker.port), timeout=CONNECT_TIMEOUT) as tcp:
        if broker.tls is None:
            return _ask(tcp)
        with tls_context(broker.tls).wrap_socket(tcp, server_hostname=broker.host) as tls:
            _hear_refusal(tls)
            return _ask(tls)


def _hear_refusal(tls: ssl.SSLSocket) -> None:
    """SSLError if the broker does not take our certificate.

    In TLS 1.3 our side of the handshake is done before the broker has looked at the certificate. Whoever speaks first
    then is answered with a reset that wipes out the reason. A broker that accepts us sends session tickets.
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
    with contextlib.suppress(TimeoutError, ConnectionError):  # a broker that closes or says nothing is an old one
        sock.sendall(CONNECT)
        while len(answer) < 2 + ANSWER and (more := sock.recv(64)):
            answer += more
            if len(answer) == 4 and answer[1] == 2:
                return False  # a whole CONNACK of 3.1.1
        sock.sendall(DISCONNECT)
    return len(answer) >= 2 + ANSWER and answer[0] == CONNACK
