"""The desired retained messages at the broker, and their publication.

The desired state is derived from rounds and models: artifacts in chunks, one instruction (`Job` or `Offer`) per device.
`Publisher` compares it with what it has published on this connection, and publishes the difference. After a
reconnection it publishes everything.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import msgspec

from aggregator.intake.transfers import PathStorage
from aggregator.storage.artifacts import content_of
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from core.errors import StorageError
from wire.chunks import encode_chunk
from wire.codec import encode_message
from wire.envelope import seal
from wire.ids import AGGREGATOR
from wire.keys import Ed25519PrivateKey
from wire.messages import Ack, Job, Offer, Rejected
from wire.topics import DeviceTopic, ModelChunk

__all__ = ["Instruction", "Publisher"]

log = logging.getLogger("edgestill.aggregator")
Instruction = Job | Offer | None  # None: no work


class Publisher:
    """Publishes changes; `publish(topic, payload, retain)` returns False while disconnected."""

    def __init__(
        self,
        publish: Callable[[str, bytes, bool], bool],
        *,
        key: Ed25519PrivateKey,
        fleet: str,
        blobs: Blobs,
        journal: Journal,
    ) -> None:
        self._publish, self.key, self._fleet, self._blobs, self._journal = publish, key, fleet, blobs, journal
        self._said: dict[str, Instruction] = {}
        self._there: set[str] = set()  # artifacts
        self._reads_codes: set[str] = set()
        self._damaged: dict[str, str] = {}  # artifacts that cannot be published, and why

    def forget(self) -> None:
        """A new connection: nothing is published yet."""
        self._said.clear()
        self._there.clear()

    def reads_codes(self, device: str, does: bool) -> None:
        """Record whether a device reads the codes of refusals; otherwise it gets only their texts."""
        (self._reads_codes.add if does else self._reads_codes.discard)(device)

    def answer(self, device: str, ack: Ack) -> None:
        """Answer a device's update."""
        if isinstance(ack, Rejected) and device not in self._reads_codes:
            ack = msgspec.structs.replace(ack, why=None)
        payload = self._seal(encode_message(ack), "ack", getattr(ack, "round", 0))
        self._publish(str(DeviceTopic(self._fleet, device, "ack")), payload, False)

    def say(self, artifacts: Mapping[str, int], instructions: Mapping[str, Instruction]) -> int:
        """Publish new artifacts (digest: size), then new instructions; returns the number of messages.

        An artifact with a damaged blob is omitted, and so are the instructions that name it.
        """
        count = 0
        for digest, size in artifacts.items():
            if digest not in self._there:
                count += self._try_artifact(digest, size)
        for device, instruction in instructions.items():
            if device in self._said and self._said[device] == instruction:
                continue
            if instruction is not None and {instruction.model, instruction.side_artifact} & self._damaged.keys():
                continue
            if not self._publish(str(DeviceTopic(self._fleet, device, "job")), self._payload(instruction), True):
                return count
            self._said[device] = instruction
            count += 1
        return count

    def clear(self, digest: str, size: int) -> bool:
        """Clear an artifact at the broker."""
        for n in range(content_of(digest, size).count):
            if not self._publish(str(ModelChunk(self._fleet, digest, n)), b"", True):
                return False
        self._there.discard(digest)
        with self._journal.transaction():
            self._journal.set_retained(digest, False)
        return True

    def _try_artifact(self, digest: str, size: int) -> int:
        try:
            self._blobs.check(digest, size)
        except StorageError as error:
            if self._damaged.get(digest) != str(error):
                log.error("a model cannot be published: %s", error)
            self._damaged[digest] = str(error)
            return 0
        self._damaged.pop(digest, None)
        return self._say_artifact(digest, size)

    def _say_artifact(self, digest: str, size: int) -> int:
        content = content_of(digest, size)
        source = PathStorage(self._blobs.path(digest))
        with self._journal.transaction():
            self._journal.set_retained(digest, True)
        for n in range(content.count):
            chunk = encode_chunk(content, n, source.read(*content.span(n)))
            if not self._publish(str(ModelChunk(self._fleet, digest, n)), chunk, True):
                return n
        self._there.add(digest)
        return content.count

    def _payload(self, instruction: Instruction) -> bytes:
        if instruction is None:
            return b""
        return self._seal(encode_message(instruction), "job", instruction.round)

    def _seal(self, message: bytes, kind: str, number: int) -> bytes:
        return seal(
            message,
            key=self.key,
            kind=kind,  # type: ignore[arg-type]
            sender=AGGREGATOR,
            fleet=self._fleet,
            round=number,
        )
