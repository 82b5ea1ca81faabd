"""A paho client that reads cheaply, and looks at a message's topic before it is taken apart.

paho asks the socket for the first bytes of each packet one by one, and makes an object of every message and of its
properties. Here bytes are read ahead, many packets at a time, and a message that nobody wants costs little more than
its topic: of what a flood sends, most is dropped.

Two methods of paho's are overridden that it does not document. Where a later paho has others, these are not called:
all messages then come to `on_message`, which asks `admit` itself (`lane`).
"""

from __future__ import annotations

import errno
from collections.abc import Callable

import paho.mqtt.client as mqtt
from paho.mqtt.enums import MQTTErrorCode

__all__ = ["MAX_INCOMING", "Admit", "Reader"]

AHEAD = 256 * 1024  # bytes
MAX_INCOMING = 4_000_000  # bytes of a packet: paho would take 256 MB into memory, and only MQTT 5 tells a broker less
QOS1, QOS2 = 0x02, 0x04  # of the first byte of a PUBLISH
Admit = Callable[[str, int], str | None]  # topic and size to whose the message is; None: not wanted


class Reader(mqtt.Client):
    """A client that is given `admit` once it is made."""

    admit: Admit | None = None
    _ahead = memoryview(b"")
    _lane: str | None = None  # of the message that is being handled

    def buffered(self) -> bool:
        """Whether bytes were read that no packet was made of: poll() does not know of them."""
        return bool(self._ahead)

    def lane(self, message: mqtt.MQTTMessage) -> str | None:
        """Whose the message is that `on_message` has been given; UnicodeDecodeError: it has no topic of ours."""
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
