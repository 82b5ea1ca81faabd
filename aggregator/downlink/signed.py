"""Signed messages to single devices: how settings, requests for logs, upgrades and enrolments are sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from aggregator.storage.journal import Journal
from wire.codec import encode_message
from wire.envelope import seal
from wire.ids import AGGREGATOR
from wire.keys import Ed25519PrivateKey
from wire.messages import Message
from wire.topics import DeviceTopic

__all__ = ["Publish", "SignedMessages"]

#: Topic, payload, and whether it is retained; False while there is no connection.
Publish: TypeAlias = Callable[[str, bytes, bool], bool]
Kind: TypeAlias = Literal["desired", "ask", "upgrade", "enrolled"]


class SignedMessages:
    """The base of what sends them; a kind of message has the topic of its name."""

    def __init__(self, publish: Publish, *, key: Ed25519PrivateKey, fleet: str, journal: Journal) -> None:
        self._publish, self._key, self._fleet, self._journal = publish, key, fleet, journal

    def _send(self, device: str, kind: Kind, message: Message | None, *, retain: bool = True) -> bool:
        """Publish a message to a device, or clear a retained one with None; False while there is no connection."""
        payload = b""
        if message is not None:
            payload = seal(encode_message(message), key=self._key, kind=kind, sender=AGGREGATOR, fleet=self._fleet)
        return self._publish(str(DeviceTopic(self._fleet, device, kind)), payload, retain)
