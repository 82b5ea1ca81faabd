"""What the fleet should find at the broker, and the messages that bring it there.

The wanted state follows from rounds and models alone: artifacts in chunks, one instruction (`Job` or `Offer`) per
device. `Publisher` compares it with what it has said since the connection stands, and says the difference. After a
reconnection it has said nothing, so it says everything.
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
Instruction = Job | Offer | None  # None: nothing to do


class Publisher:
    """Says what has changed; `publish(topic, payload, retain)` is False while there is no connection."""

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
        """A new connection: nothing was said."""
        self._said.clear()
        self._there.clear()

    def reads_codes(self, device: str, does: bool) -> None:
        """Whether a device has said that it reads the codes of refusals; else it is sent their texts alone."""
        (self._reads_codes.add if does else self._reads_codes.discard)(device)

    def answer(self, device: str, ack: Ack) -> None:
        """Answer a device's update."""
        if isinstance(ack, Rejected) and device not in self._reads_codes:
            ack = msgspec.structs.replace(ack, why=None)
        payload = self._seal(encode_message(ack), "ack", getattr(ack, "round", 0))
        self._publish(str(DeviceTopic(self._fleet, device, "ack")), payload, False)

    def say(self, artifacts: Mapping[str, int], instructions: Mapping[str, Instruction]) -> int:
        """Publish the artifacts (digest: size), then the instructions, as far as they are new; how many messages.

        An artifact whose blob is damaged is left out, and so are the instructions that name it.
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
        """Take an artifact from the broker."""
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
