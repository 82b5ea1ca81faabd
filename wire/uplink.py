"""The transfer of a message on a device's `up` topic, read from the chunk, because the topic does not contain it."""

from __future__ import annotations

from core.errors import TopicError, TransferError
from wire.chunks import decode_place
from wire.ids import transfer_id
from wire.topics import DeviceTopic, Topic, UpdateChunk

__all__ = ["NO_TRANSFER", "addressed"]

#: The transfer id of a payload that is not a chunk; no digest starts like this, so it never exists.
NO_TRANSFER = "none"


def addressed(topic: Topic, payload: bytes) -> Topic:
    """The topic, with transfer and number if a chunk arrived on `up`.

    Only the head of the chunk is read. A payload without a head is assigned to `NO_TRANSFER`, so that it is refused,
    and counted for that device, when chunks are decoded.
    """
    if not isinstance(topic, DeviceTopic) or topic.leaf != "up":
        return topic
    try:
        digest, n = decode_place(payload)
        return UpdateChunk(topic.fleet, topic.device, transfer_id(digest), n)
    except (TransferError, TopicError):
        return UpdateChunk(topic.fleet, topic.device, NO_TRANSFER, 0)
