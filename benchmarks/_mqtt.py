"""A tiny MQTT 3.1.1 client on asyncio: thousands of connections in one process, as paho's own loops cannot.

It implements only what the benchmarks need: CONNECT with a will, SUBSCRIBE, PUBLISH with QoS 0 and 1. A lost
connection is an error.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import cast

__all__ = ["Connection", "open_connection", "publish_packet"]

CONNECT, PUBLISH, SUBSCRIBE, DISCONNECT = 0x10, 0x30, 0x82, 0xE0
CONNACK, PUBACK, SUBACK = 0x20, 0x40, 0x90
QOS1, RETAIN = 0x02, 0x01
OnMessage = Callable[[str, bytes], None]


def _packet(first: int, *parts: bytes) -> bytes:
    """The fixed header, the remaining length in groups of 7 bits, and the rest."""
    body = b"".join(parts)
    size, length = len(body), bytearray()
    while True:
        size, group = size >> 7, size & 0x7F
        length.append(group | (0x80 if size else 0))
        if not size:
            return bytes([first]) + bytes(length) + body


def _field(data: str | bytes) -> bytes:
    raw = data.encode() if isinstance(data, str) else data
    return len(raw).to_bytes(2, "big") + raw


def publish_packet(topic: str, payload: bytes, number: int = 0) -> bytes:
    """A PUBLISH of QoS 0, or, with a `number`, of QoS 1."""
    if not number:
        return _packet(PUBLISH, _field(topic), payload)
    return _packet(PUBLISH | QOS1, _field(topic), number.to_bytes(2, "big"), payload)


class Connection(asyncio.Protocol):
    """One connection; `on_message` is called for every message."""

    def __init__(self, client_id: str, on_message: OnMessage, will: tuple[str, bytes] | None) -> None:
        self._client_id, self._on_message, self._will = client_id, on_message, will
        self._buffer = bytearray()
        self._number = 0
        self._waiting: dict[tuple[int, int], asyncio.Future[None]] = {}  # (kind of the answer, number)
        self._transport: asyncio.Transport | None = None
        self._closing = False

    # callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        flags, will = 0x02, b""  # a clean session
        if self._will is not None:
            flags, will = flags | 0x2C, _field(self._will[0]) + _field(self._will[1])  # QoS 1, retained
        keepalive = (0).to_bytes(2, "big")
        self.write(_packet(CONNECT, _field("MQTT"), bytes([4, flags]), keepalive, _field(self._client_id), will))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._closing:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(ConnectionError(f"{self._client_id}: the broker closed the connection"))

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        while (end := _end_of_packet(buffer)) is not None:
            start, stop = end
            if len(buffer) < stop:
                return
            first, body = buffer[0], bytes(buffer[start:stop])
            del buffer[:stop]
            self._received(first, body)

    def _received(self, first: int, body: bytes) -> None:
        kind = first & 0xF0
        if kind == PUBLISH:
            end = 2 + int.from_bytes(body[:2], "big")
            topic = body[2:end].decode()
            if first & 0x06:
                self.write(_packet(PUBACK, body[end : end + 2]))
                end += 2
            self._on_message(topic, body[end:])
        else:
            number = 0 if kind == CONNACK else int.from_bytes(body[:2], "big")
            future = self._waiting.pop((kind, number), None)
            if future is not None and not future.done():
                future.set_result(None)

    # public methods

    def write(self, data: bytes) -> None:
        """Send bytes through the buffers of the kernel and asyncio."""
        assert self._transport is not None
        self._transport.write(data)

    def unsent(self) -> int:
        """Bytes that the kernel has not accepted yet."""
        assert self._transport is not None
        return self._transport.get_write_buffer_size()

    def answer(self, kind: int, number: int = 0) -> asyncio.Future[None]:
        """A future for the broker's answer."""
        future = asyncio.get_running_loop().create_future()
        self._waiting[kind, number] = future
        return future

    async def subscribe(self, topics: Sequence[str]) -> None:
        """Subscribe, QoS 1."""
        self._number += 1
        done = self.answer(SUBACK, self._number)
        number = self._number.to_bytes(2, "big")
        self.write(_packet(SUBSCRIBE, number, *(_field(topic) + b"\x01" for topic in topics)))
        await done

    async def publish(self, topic: str, payload: bytes) -> None:
        """Publish retained with QoS 1; returns when the broker has it."""
        self._number += 1
        done = self.answer(PUBACK, self._number)
        self.write(_packet(PUBLISH | QOS1 | RETAIN, _field(topic), self._number.to_bytes(2, "big"), payload))
        await done

    def close(self) -> None:
        """Disconnect; the will is not published."""
        self._closing = True
        if self._transport is not None and not self._transport.is_closing():
            self.write(_packet(DISCONNECT))
            self._transport.close()


async def open_connection(
    port: int, client_id: str, on_message: OnMessage, *, will: tuple[str, bytes] | None = None
) -> Connection:
    """Connect to the broker on this machine."""
    connection = Connection(client_id, on_message, will)
    accepted = connection.answer(CONNACK)
    await asyncio.get_running_loop().create_connection(lambda: connection, "127.0.0.1", port)
    await accepted
    return connection


def _end_of_packet(buffer: bytearray) -> tuple[int, int] | None:
    """Start and end of the first packet's body; None until its length is received."""
    size = 0
    for i in range(1, min(5, len(buffer))):
        size |= (buffer[i] & 0x7F) << (7 * (i - 1))
        if not buffer[i] & 0x80:
            return 1 + i, 1 + i + size
    return None
