"""The agent's messages as bytes: sealed, opened, checked. Holds the keys; imports no torch."""

from __future__ import annotations

from collections.abc import Callable

from core.errors import EnvelopeError
from edge_agent.protocol.agent import seconds_left
from edge_agent.protocol.events import Answered, Instructed
from wire.board_reports import Ask, LogTail, Telemetry
from wire.codec import decode_ack, decode_instruction, decode_message, encode_message
from wire.envelope import WITH_TASK, Kind, open_envelope, seal
from wire.ids import AGGREGATOR
from wire.keys import Ed25519PrivateKey, Ed25519PublicKey
from wire.messages import About, Desired, Job, Message, Metrics, Reported, State
from wire.topics import DeviceTopic, Leaf, ModelChunk

__all__ = ["MAX_SMALL", "Mail"]

#: Bytes of a job or an answer with its envelope.
MAX_SMALL = 160 * 1024


class Mail:
    """The topics and the keys of one device."""

    def __init__(
        self,
        fleet: str,
        device: str,
        *,
        key: Ed25519PrivateKey,
        aggregator: Ed25519PublicKey,
        wall_clock: Callable[[], float],
    ) -> None:
        self.fleet, self.device = fleet, device
        self._key, self._aggregator, self._wall_clock = key, aggregator, wall_clock

    def topic(self, leaf: Leaf) -> str:
        """One of the device's own topics."""
        return str(DeviceTopic(self.fleet, self.device, leaf))

    def model_topics(self, digest: str, numbers: tuple[int, ...]) -> list[str]:
        """The topic of a chunk of a published model."""
        return [str(ModelChunk(self.fleet, digest, n)) for n in numbers]

    def state(self, state: State) -> tuple[str, bytes]:
        """Topic and payload."""
        return self.topic("state"), self._seal(state, "state")

    def about(self, about: About) -> tuple[str, bytes]:
        """Topic and payload."""
        version = None if about.data is None else WITH_TASK
        return self.topic("about"), self._seal(about, "about", version=version)

    def metrics(self, metrics: Metrics) -> tuple[str, bytes]:
        """Topic and payload."""
        return self.topic("metrics"), self._seal(metrics, "metrics", metrics.round)

    def telemetry(self, telemetry: Telemetry) -> tuple[str, bytes]:
        """Topic and payload."""
        return self.topic("telemetry"), self._seal(telemetry, "telemetry", telemetry.round)

    def log_tail(self, tail: LogTail) -> tuple[str, bytes]:
        """Topic and payload."""
        return self.topic("log"), self._seal(tail, "log")

    def read_ask(self, payload: bytes) -> Ask:
        """The message on the topic of requests; `WireError` if not signed by the aggregator for this device."""
        ask = decode_message(self._open(payload, "ask"), Ask)
        if ask.device != self.device:
            raise EnvelopeError(f"a request to {ask.device!r}, not to this device")
        return ask

    def reported(self, reported: Reported) -> tuple[str, bytes]:
        """Topic and payload."""
        return self.topic("reported"), self._seal(reported, "reported")

    def read_desired(self, payload: bytes) -> Desired:
        """The message on the desired topic; `WireError` if not signed by the aggregator for this device."""
        desired = decode_message(self._open(payload, "desired"), Desired)
        if desired.device != self.device:
            raise EnvelopeError(f"settings for {desired.device!r}, not for this device")
        return desired

    def read_job(self, payload: bytes) -> Instructed:
        """The message on the job topic; `WireError` if not signed by the aggregator."""
        if not payload:
            return Instructed(None)
        instruction = decode_instruction(self._open(payload, "job"))
        left = seconds_left(instruction.deadline, self._wall_clock()) if isinstance(instruction, Job) else None
        return Instructed(instruction, left)

    def read_ack(self, payload: bytes) -> Answered:
        """The message on the ack topic; `WireError` if not signed by the aggregator."""
        return Answered(decode_ack(self._open(payload, "ack")))

    def read_state(self, payload: bytes) -> State:
        """The message on the device's own state topic; `WireError` if not signed by the device."""
        mine = self._key.public_key()
        envelope = open_envelope(
            payload, public_key=mine, fleet=self.fleet, sender=self.device, kinds=("state",), max_bytes=MAX_SMALL
        )
        return decode_message(envelope.payload, State)

    def _seal(self, message: Message, kind: Kind, number: int = 0, *, version: int | None = None) -> bytes:
        payload, key = encode_message(message), self._key
        return seal(payload, key=key, kind=kind, sender=self.device, fleet=self.fleet, round=number, version=version)

    def _open(self, payload: bytes, kind: Kind) -> bytes:
        envelope = open_envelope(
            payload,
            public_key=self._aggregator,
            fleet=self.fleet,
            sender=AGGREGATOR,
            kinds=(kind,),
            max_bytes=MAX_SMALL,
        )
        return envelope.payload
