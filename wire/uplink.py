"""Which transfer a message on a device's `up` topic belongs to: the chunk itself says so, the topic does not."""

from __future__ import annotations

from core.errors import TopicError, TransferError
from wire.chunks import decode_place
from wire.ids import transfer_id
from wire.topics import DeviceTopic, Topic, UpdateChunk

__all__ = ["NO_TRANSFER", "addressed"]

#: The transfer of a payload that is no chunk; no digest begins so, and nothing is ever known of it.
NO_TRANSFER = "none"


def addressed(topic: Topic, payload: bytes) -> Topic:
    """The topic, with transfer and number where a chunk came to `up`.

    Only the head of the chunk is read. A payload without one is addressed to `NO_TRANSFER`, so that it is refused, as
    that device's, where chunks are decoded.
    """
    if not isinstance(topic, DeviceTopic) or topic.leaf != "up":
        return topic
    try:
        digest, n = decode_place(payload)
        return UpdateChunk(topic.fleet, topic.device, transfer_id(digest), n)
    except (TransferError, TopicError):
        return UpdateChunk(topic.fleet, topic.device, NO_TRANSFER, 0)
