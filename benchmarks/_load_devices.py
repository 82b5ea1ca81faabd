"""Light devices: real connections and real messages of many agents in one process, with an echo instead of training.

Each announces itself, gets the published model from its offer, prepares a signed update (the published tensors,
unchanged, under its own id), and sends it when its job arrives. The agent's own code (`edge_agent/messages.py`,
`edge_agent/protocol/upload.py`) determines the messages and when a chunk is sent or repeated.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from _fleet import FLEET
from _mqtt import Connection, open_connection, publish_packet

from edge_agent.messages import Mail
from edge_agent.protocol.events import SendChunk, Spooled
from edge_agent.protocol.upload import Upload
from wire.chunks import Content, decode_chunk, encode_chunk
from wire.envelope import open_envelope, seal
from wire.headers import decode_model, encode_update
from wire.ids import digest_of, transfer_id
from wire.keys import Ed25519PrivateKey, Ed25519PublicKey
from wire.messages import About, Accepted, Job, Missing, Offer, Rejected, State, UpdateHeader
from wire.storage import MemoryStorage
from wire.topics import ModelChunk, agent_filters
from wire.transfer import Receiver

__all__ = ["LightDevice", "fetch_tensors", "until"]

TICK_S = 0.25


@dataclass(slots=True)
class LightDevice:
    """One device; `offered` and `accepted` are set when the messages arrive."""

    name: str
    key: Ed25519PrivateKey
    aggregator: Ed25519PublicKey
    prototype: str
    offered: Offer | None = None
    asked_at: float | None = None
    accepted_at: float | None = None
    bytes_up: int = 0
    _link: Connection | None = None
    _mail: Mail | None = None
    _packets: list[bytes] = field(default_factory=list)  # the encoded update
    _sizes: list[int] = field(default_factory=list)  # size of its chunks
    _upload: Upload | None = None

    async def connect(self, port: int) -> None:
        """Connect with a will and subscribe, as an agent does."""
        self._mail = Mail(FLEET, self.name, key=self.key, aggregator=self.aggregator, wall_clock=time.time)
        will = self._mail.state(State(status="lost", session=1))
        self._link = await open_connection(port, self.name, self._heard, will=will)
        await self._link.subscribe(agent_filters(FLEET, self.name))

    async def announce(self) -> None:
        """Announce the device."""
        assert self._link is not None
        assert self._mail is not None
        about = About(board="bench", prototype=self.prototype, precision="fp32", label_counts=(10,) * 10)
        await self._link.publish(*self._mail.state(State(status="online", session=1)))
        await self._link.publish(*self._mail.about(about))

    def prepare(self, tensors: bytes, base: str, number: int = 1) -> int:
        """Prepare the update of round `number`; returns the bytes of its chunks."""
        assert self._mail is not None
        header = UpdateHeader(
            round=number,
            device=self.name,
            prototype=self.prototype,
            update="state",
            num_examples=100,
            label_counts=(10,) * 10,
            base=base,
        )
        payload = encode_update(header, tensors)
        sealed = seal(payload, key=self.key, kind="update", sender=self.name, fleet=FLEET, round=number)
        content = Content(digest=digest_of(sealed), size=len(sealed))
        transfer, source = transfer_id(content.digest), MemoryStorage(sealed)
        chunks = [encode_chunk(content, n, source.read(*content.span(n))) for n in range(content.count)]
        self._packets = [publish_packet(self._mail.topic("up"), chunk) for chunk in chunks]
        self._upload = Upload(Spooled(key=str(number), round=number, transfer=transfer, count=content.count))
        self._sizes = [len(chunk) for chunk in chunks]
        return sum(self._sizes)

    def tick(self) -> None:
        """Retry if an answer is overdue."""
        if self.asked_at is not None and self.accepted_at is None and self._upload is not None:
            self._send(self._upload.tick(time.monotonic()))

    def close(self) -> None:
        """Disconnect."""
        if self._link is not None:
            self._link.close()

    def _heard(self, topic: str, payload: bytes) -> None:
        assert self._mail is not None
        now = time.monotonic()
        if topic.endswith("/ack"):
            self._answered(self._mail.read_ack(payload).ack, now)
            return
        if not topic.endswith("/job"):
            return  # its own state, which an agent receives too
        match self._mail.read_job(payload).instruction:
            case Offer() as offer:
                self.offered = offer
            case Job() if self.asked_at is None and self._upload is not None:
                self.asked_at = now
                self._send(self._upload.connected(now))

    def _answered(self, ack: Accepted | Rejected | Missing, now: float) -> None:
        assert self._upload is not None
        match ack:
            case Accepted():
                self.accepted_at = now
            case Missing(ranges=ranges):
                self._send(self._upload.missing(ranges, now))
            case Rejected(reason=reason):
                raise SystemExit(f"{self.name}: update refused: {reason}")

    def _send(self, actions: Sequence[SendChunk]) -> None:
        assert self._link is not None
        for action in actions:
            self.bytes_up += self._sizes[action.n]
            self._link.write(self._packets[action.n])


async def fetch_tensors(port: int, digest: str, aggregator: Ed25519PublicKey) -> bytes:
    """The tensors of a published model, from its retained chunks."""
    done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    held = bytearray()
    receiver: list[Receiver] = []

    def heard(_topic: str, payload: bytes) -> None:
        chunk = decode_chunk(payload)
        if not receiver:
            receiver.append(Receiver(chunk.content, MemoryStorage(held)))
        receiver[0].accept(chunk)
        if receiver[0].complete and not done.done():
            receiver[0].finish()
            done.set_result(bytes(held))

    link = await open_connection(port, "bench-scout", heard)
    await link.subscribe([str(ModelChunk(FLEET, digest, 0))[:-1] + "+"])
    sealed = await asyncio.wait_for(done, 30)
    link.close()
    return decode_model(open_envelope(sealed, public_key=aggregator, fleet=FLEET).payload)[1]


async def until(
    condition: Callable[[], bool], seconds: float, what: str, step: Callable[[], None] = lambda: None
) -> None:
    """Wait for a condition; the benchmark aborts after a timeout."""
    end = time.monotonic() + seconds
    ticked = 0.0
    while not condition():
        now = time.monotonic()
        if now > end:
            raise SystemExit(f"{what}: not within {seconds:g} s")
        if now - ticked > TICK_S:
            ticked = now
            step()
        await asyncio.sleep(0.02)
