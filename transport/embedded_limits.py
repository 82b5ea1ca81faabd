"""Resource limits per client of the embedded broker: amqtt has none of its own.

    packets     MAX_PACKET bytes; a client that sends a larger one is disconnected before it is read
    retained    for each client MAX_RETAINED messages and RETAINED_BYTES bytes; beyond, a message is delivered but not
                kept. Uploaded chunks are never retained
    queued      QUEUE messages to be distributed, then publishers block. UNREAD bytes for each client that does
                not read; further messages are not sent to it
    connections CONNECTIONS at once; others wait

Clients are identified by the ids that they choose: the broker has no passwords, and is for one machine.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Coroutine, MutableMapping
from typing import Any

from core.errors import TopicError
from wire.topics import DeviceTopic, UpdateChunk, parse

__all__ = ["CONNECTIONS", "MAX_PACKET", "MAX_RETAINED", "QUEUE", "RETAINED_BYTES", "UNREAD", "bounded"]

log = logging.getLogger("edgestill.transport")

MAX_PACKET = 4_000_000  # twice what clients of edgestill send
MAX_RETAINED, RETAINED_BYTES = 16_384, 512 * 2**20  # chunks of the models of an aggregator
QUEUE = 1000
UNREAD = 64 * 2**20
CONNECTIONS = 4096


class _Limited:
    """A connection's reader; closes the connection if a packet exceeds the limit."""

    def __init__(self, reader: Any, writer: Any) -> None:
        self._reader, self._writer = reader, writer

    async def read(self, n: int = -1) -> bytes:
        if n > MAX_PACKET:
            log.warning("embedded broker: a packet of %d bytes is refused; at most %d are allowed", n, MAX_PACKET)
            if (stream := _stream(self._writer)) is not None:
                stream.transport.abort()  # amqtt would wait for the client to disconnect
            raise ConnectionResetError
        data: bytes = await self._reader.read(n)
        return data

    def feed_eof(self) -> None:
        self._reader.feed_eof()


class _Counted:
    """A connection to publish to; counts the bytes that its client has not read."""

    def __init__(self, handler: Any, unread: MutableMapping[Any, int]) -> None:
        self._handler, self._unread = handler, unread

    def mqtt_publish(self, topic: str, data: bytes, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Counted from now on, not from when it is scheduled."""
        self._unread[self._handler] = self._unread.get(self._handler, 0) + len(data)
        return self._publish(topic, data, *args, **kwargs)

    async def _publish(self, topic: str, data: bytes, *args: Any, **kwargs: Any) -> Any:
        try:
            return await self._handler.mqtt_publish(topic, data, *args, **kwargs)
        finally:
            self._unread[self._handler] = self._unread.get(self._handler, 0) - len(data)


class _Retained:
    """Retained messages and their bytes by client: each may have MAX_RETAINED and RETAINED_BYTES."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[str, int]] = {}  # topic to who has it retained, and its bytes
        self._sums: dict[str, tuple[int, int]] = {}  # client to messages and bytes

    def keep(self, client: str, topic: str, size: int) -> bool:
        """Whether the client may have this message retained; it is counted if so."""
        if _is_chunk_up(topic):
            return False
        held, old = self._kept.get(topic, ("", 0))
        count, total = self._sums.get(client, (0, 0))
        if held == client:
            count, total = count - 1, total - old
        if count >= MAX_RETAINED or total + size > RETAINED_BYTES:
            return False
        self.forget(topic)
        count, total = self._sums.get(client, (0, 0))
        self._kept[topic], self._sums[client] = (client, size), (count + 1, total + size)
        return True

    def forget(self, topic: str) -> None:
        """Nothing is retained there any more."""
        client, size = self._kept.pop(topic, ("", 0))
        if client in self._sums:
            count, total = self._sums.pop(client)
            if count > 1:
                self._sums[client] = count - 1, total - size


def bounded(base: type[Any]) -> type[Any]:
    """amqtt's broker with these limits."""

    class Bounded(base):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._broadcast_queue: asyncio.Queue[Any] = asyncio.Queue(QUEUE)
            self._retained = _Retained()
            self._unread: MutableMapping[Any, int] = weakref.WeakKeyDictionary()  # by connection

        async def _client_connected(self, listener_name: str, reader: Any, writer: Any) -> None:
            await super()._client_connected(listener_name, _Limited(reader, writer), writer)

        async def retain_message(self, source_session: Any, topic_name: Any, data: Any, qos: Any = None) -> None:
            client = str(getattr(source_session, "client_id", ""))
            if not data:
                self._retained.forget(topic_name)
            elif not self._retained.keep(client, topic_name, len(data)):
                log.debug("embedded broker: %s of %s is not retained", topic_name, client)
                return
            await super().retain_message(source_session, topic_name, data, qos)

        def _get_handler(self, session: Any) -> Any:
            handler = super()._get_handler(session)
            if handler is None or self._unread.get(handler, 0) >= UNREAD:
                return None
            return _Counted(handler, self._unread)

    return Bounded


def _is_chunk_up(topic: str) -> bool:
    try:
        found = parse(topic)
    except TopicError:
        return False
    return isinstance(found, UpdateChunk) or (isinstance(found, DeviceTopic) and found.leaf == "up")


def _stream(writer: Any) -> Any:
    """asyncio's own stream below amqtt's adapter."""
    return getattr(writer, "_writer", None)
