"""A paho client that reads in bulk, and filters messages by topic before they are parsed.

paho reads the first bytes of each packet one by one, and creates objects for every message and its properties. Here
many packets are read at a time, and an unwanted message costs little more than reading its topic, so that most of a
flood is dropped cheaply.

Two undocumented methods of paho are overridden. If a later paho renames them, they are not called: all messages then
reach `on_message`, which calls `admit` itself (`lane`).
"""

from __future__ import annotations

import errno
from collections.abc import Callable

import paho.mqtt.client as mqtt
from paho.mqtt.enums import MQTTErrorCode

__all__ = ["MAX_INCOMING", "Admit", "Reader"]

AHEAD = 256 * 1024  # bytes
MAX_INCOMING = 4_000_000  # bytes of a packet: paho accepts 256 MB, and only MQTT 5 can announce a smaller limit
QOS1, QOS2 = 0x02, 0x04  # of the first byte of a PUBLISH
Admit = Callable[[str, int], str | None]  # topic and size to sender; None: unwanted


class Reader(mqtt.Client):
    """A client whose `admit` is set after construction."""

    admit: Admit | None = None
    _ahead = memoryview(b"")
    _lane: str | None = None  # of the message that is being handled

    def buffered(self) -> bool:
        """Whether unparsed bytes are buffered, which poll() does not see."""
        return bool(self._ahead)

    def lane(self, message: mqtt.MQTTMessage) -> str | None:
        """The sender of the message passed to `on_message`; UnicodeDecodeError if its topic is not UTF-8."""
        lane, self._lane = self._lane, None
        if lane is not None or self.admit is None:
            return lane
        return self.admit(message.topic, len(message.payload))

    def _sock_recv(self, bufsize: int) -> bytes:
        if bufsize > MAX_INCOMING:
            raise OSError(errno.EMSGSIZE, f"a packet of more than {MAX_INCOMING:,} bytes")
        if not self._ahead:
            if bufsize >= AHEAD:
                return bytes(super()._sock_recv(AHEAD))
            self._ahead = memoryview(super()._sock_recv(AHEAD))
        found, self._ahead = self._ahead[:bufsize], self._ahead[bufsize:]
        return bytes(found)

    def _handle_publish(self) -> MQTTErrorCode:
        packet = self._in_packet
        if self.admit is not None and not packet["command"] & QOS2:
            topic, number, size = _look(packet["command"], packet["packet"])
            self._lane = None if topic is None else self.admit(topic, size)
            if self._lane is None:
                return MQTTErrorCode.MQTT_ERR_SUCCESS if number is None else self._send_puback(number)
        return super()._handle_publish()


def _look(command: int, body: bytes | bytearray) -> tuple[str | None, int | None, int]:
    """Topic (None: not UTF-8), number (None: QoS 0) and size, roughly, of the message in a PUBLISH packet."""
    end = 2 + int.from_bytes(body[:2], "big")
    number = int.from_bytes(body[end : end + 2], "big") if command & QOS1 else None
    try:
        return bytes(body[2:end]).decode(), number, max(0, len(body) - end)
    except UnicodeDecodeError:
        return None, number, 0
