"""A fleet for the aggregator's tests: keys, a fleet.toml, and devices that follow docs/protocol.md without training."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np

from tests.sender import Sender, content_of
from transport.config import BrokerConfig
from transport.link import Connected, Link, Received
from wire.chunks import decode_chunk
from wire.codec import decode_ack, decode_instruction, decode_message, encode_message
from wire.envelope import open_envelope, seal
from wire.headers import decode_model, encode_update
from wire.ids import AGGREGATOR, digest_of, transfer_id
from wire.keys import Ed25519PrivateKey, public_key_hex, save_private_key
from wire.messages import About, Accepted, Ack, Job, Missing, Offer, Rejected, State, UpdateHeader
from wire.ranges import expand
from wire.refusals import READS_CODES
from wire.storage import MemoryStorage
from wire.tensors import decode, encode
from wire.topics import DeviceTopic, ModelChunk, UpdateChunk, agent_filters, parse
from wire.transfer import Receiver

FLEET = "test-fleet"


def key_of(name: str) -> Ed25519PrivateKey:
    """The same key for the same name: a restarted device, and a second run, are the same."""
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(digest_of(name.encode())))


def write_fleet(folder: Path, broker: BrokerConfig, devices: list[str], /, **tables: str) -> Path:
    """A fleet.toml with these devices; `tables` adds lines by table."""
    folder.mkdir(parents=True, exist_ok=True)
    save_private_key(key_of(AGGREGATOR), folder / "aggregator.key")
    lines = {
        "fleet": f'id = "{FLEET}"\nseed = 3',
        "broker": f'host = "{broker.host}"\nport = {broker.port}',
        "state": 'dir = "state"\nkey = "aggregator.key"',
        "task": "input_shape = [1, 8, 8]\nclasses = 3\nlatent = 8",
        "prototypes": 'names = ["mlp:fp32", "cnn:w1"]',
        "round": f"rounds = 2\nmin_devices = {len(devices)}\ndeadline_s = 60",
        "train": "lr = 0.1\nbatch_size = 4",
        "devices": "\n".join(f'{d} = {{ key = "{public_key_hex(key_of(d).public_key())}" }}' for d in devices),
        "log": 'level = "debug"',
    }
    for name, text in tables.items():
        lines[name] = f"{lines.get(name, '')}\n{text}" if not text.startswith("!") else text[1:]
    path = folder / "fleet.toml"
    path.write_text("".join(f"[{name}]\n{text}\n\n" for name, text in lines.items()))
    return path


def model_topics(digest: str, numbers: range) -> list[str]:
    """Chunks of one artifact, each by its number: not every broker delivers retained ones to wildcards."""
    return [str(ModelChunk(FLEET, digest, n)) for n in numbers]


def make_update(device: str, job: Job, artifact: bytes, **changes: object) -> bytes:
    """The sealed update of a device that adds a number of its own to every float tensor."""
    header, body = decode_model(artifact)
    shift = np.float32(int(digest_of(device.encode())[:4], 16) / 2**16 + job.round)
    tensors = {
        n: np.asarray(t.astype(np.float32) + shift) if t.dtype.kind == "f" else t for n, t in decode(body).items()
    }
    fields: dict = {
        "round": job.round,
        "device": device,
        "prototype": header.prototype,
        "update": "state",
        "num_examples": 10 + len(device),
        "label_counts": (4 + len(device), 3, 3),
        "base": job.model,
        "metrics": {"train_loss": 1.0 / job.round},
    }
    fields.update(changes)
    tensors = fields.pop("tensors", tensors)
    payload = encode_update(UpdateHeader(**fields), encode(tensors))
    return seal_update(device, payload, job.round)


def seal_update(device: str, payload: bytes, number: int, nonce: bytes | None = None) -> bytes:
    nonce = nonce or bytes.fromhex(digest_of(payload))[:12]
    return seal(payload, key=key_of(device), kind="update", sender=device, fleet=FLEET, round=number, nonce=nonce)


class Device(threading.Thread):
    """One device in a thread: announces itself, fetches models, sends updates until they are answered."""

    def __init__(self, device: str, prototype: str, broker: BrokerConfig, *, chunk_size: int = 4096) -> None:
        super().__init__(daemon=True)
        self.device, self.prototype, self.chunk_size = device, prototype, chunk_size
        will = (self._topic("state"), self._sealed("state", State(status="lost", session=1)))
        self.link = Link(broker, client_id=device, filters=agent_filters(FLEET, device), will=will)
        self.answers: list[Ack] = []
        self.instructions: list[Job | Offer | None] = []
        self.make = make_update
        self.finished: set[tuple[int, int]] = set()  # round and seed of jobs
        self.busy = True  # False: takes jobs, sends nothing
        self.one_topic = False  # True: as the access list of a provisioned broker wants it
        self._models: dict[str, bytes] = {}
        self._fetching: dict[str, Receiver | None] = {}
        self._stores: dict[str, bytearray] = {}
        self._sending: tuple[Sender, tuple[int, int]] | None = None
        self._quiet = time.monotonic()
        self._probing = False
        self._ending = False

    def run(self) -> None:
        self.link.start()
        while not self._ending:
            match self.link.next_event(0.2):
                case Connected():
                    self._announce()
                case Received(topic, payload, _):
                    self._received(topic, payload)
            self._go_on()
        self.link.stop()

    def end(self) -> None:
        self._ending = True
        self.link.wake()
        self.join(60)

    def leave(self) -> None:
        """Go offline, as an agent does that is stopped."""
        self.say("state", State(status="offline", session=1), retain=True)
        until = time.monotonic() + 60
        while self.link.pending() and time.monotonic() < until:
            time.sleep(0.01)
        self.end()

    def say(self, leaf: str, message: object, *, retain: bool = False) -> None:
        """Publish a signed message on a topic of its own."""
        self.link.publish(self._topic(leaf), self._sealed(leaf, message), retain=retain)

    def _topic(self, leaf: str) -> str:
        return str(DeviceTopic(FLEET, self.device, leaf))

    def _sealed(self, kind: str, message: object) -> bytes:
        return seal(encode_message(message), key=key_of(self.device), kind=kind, sender=self.device, fleet=FLEET)

    def _announce(self) -> None:
        about = About(
            board="test",
            prototype=self.prototype,
            precision="fp32",
            label_counts=(4, 3, 3),
            versions=dict([READS_CODES]),
        )
        self.link.publish(self._topic("about"), self._sealed("about", about), retain=True)
        self._say_online()
        for digest in self._fetching:
            self._subscribe(digest)
        self._quiet = 0.0  # probe at once

    def _received(self, text: str, payload: bytes) -> None:
        topic = parse(text)
        if isinstance(topic, ModelChunk):
            if payload:
                self._model_chunk(topic.digest, payload)
            return
        assert isinstance(topic, DeviceTopic)
        if topic.leaf == "state":
            self._contradict(payload)
            return
        if not payload:
            self.instructions.append(None)
            return
        kind = "job" if topic.leaf == "job" else "ack"
        key = key_of(AGGREGATOR).public_key()
        envelope = open_envelope(payload, public_key=key, fleet=FLEET, sender=AGGREGATOR, kinds=(kind,))
        if kind == "job":
            self.instructions.append(decode_instruction(envelope.payload))
        else:
            self._answered(decode_ack(envelope.payload))

    def _contradict(self, payload: bytes) -> None:
        """The will of a broken connection may come after the next one's `online`."""
        envelope = open_envelope(payload, public_key=key_of(self.device).public_key(), fleet=FLEET)
        if decode_message(envelope.payload, State).status != "online":
            self._say_online()

    def _say_online(self) -> None:
        self.link.publish(self._topic("state"), self._sealed("state", State(status="online", session=1)), retain=True)

    def _answered(self, ack: Ack) -> None:
        self.answers.append(ack)
        if self._sending is None or ack.transfer != transfer_id(self._sending[0].content.digest):
            return
        sender, job = self._sending
        if isinstance(ack, Missing):
            if self._probing:
                sender.reconnected()  # what was in flight before the probe is lost
                self._probing = False
            lacking = set(expand(ack.ranges, sender.content.count))
            for n in set(range(sender.content.count)) - lacking:
                sender.acked(n)  # what is in flight and lacking may still come
            sender.resend(ack.ranges)
        elif isinstance(ack, Accepted | Rejected):
            self.finished.add(job)
            self._sending = None

    def _model_chunk(self, digest: str, payload: bytes) -> None:
        chunk = decode_chunk(payload)
        if digest not in self._fetching:
            return
        store = self._stores.setdefault(digest, bytearray())
        receiver = self._fetching[digest]
        if receiver is None:
            receiver = self._fetching[digest] = Receiver(chunk.content, MemoryStorage(store))
            if chunk.content.count > 1:
                self._subscribe(digest)
        receiver.accept(chunk)
        if receiver.complete:
            receiver.finish()
            assert digest_of(bytes(store)) == digest
            key = key_of(AGGREGATOR).public_key()
            envelope = open_envelope(bytes(store), public_key=key, fleet=FLEET, sender=AGGREGATOR, kinds=("model",))
            self._models[digest] = envelope.payload
            del self._fetching[digest], self._stores[digest]
            self.link.unsubscribe(model_topics(digest, range(chunk.content.count)))

    def _subscribe(self, digest: str) -> None:
        """To the first chunk, which says how many there are, then to the others."""
        receiver = self._fetching[digest]
        self.link.subscribe(model_topics(digest, range(1 if receiver is None else receiver.content.count)))

    def model(self, digest: str) -> bytes | None:
        """The payload of an artifact, once it was fetched."""
        return self._models.get(digest)

    @property
    def asked(self) -> bool:
        """Whether the newest instruction is a job that was not answered."""
        latest = self.instructions[-1] if self.instructions else None
        return isinstance(latest, Job) and (latest.round, latest.hyper.seed) not in self.finished

    def _go_on(self) -> None:
        latest = self.instructions[-1] if self.instructions else None
        if latest is not None and latest.model not in self._models:
            if latest.model not in self._fetching:
                self._fetching[latest.model] = None
                self._subscribe(latest.model)
        elif latest is not None and self.busy and self._sending is None and self.asked:
            sealed = self.make(self.device, latest, self._models[latest.model])
            content = content_of(sealed, chunk_size=self.chunk_size)
            self._sending = Sender(content, MemoryStorage(sealed), window=6), (latest.round, latest.hyper.seed)
            self._quiet = time.monotonic()
        self._send()

    def _send(self) -> None:
        if self._sending is None or not self.link.connected:
            return
        sender, _ = self._sending
        numbers = sender.next()
        if not numbers and time.monotonic() - self._quiet > 0.5:
            numbers = [min(sender.in_flight, default=0)]
            self._probing = True
        for n in numbers:
            of_chunk = UpdateChunk(FLEET, self.device, transfer_id(sender.content.digest), n)
            topic = self._topic("up") if self.one_topic else str(of_chunk)
            self.link.publish(topic, sender.chunk(n), qos=0)
            self._quiet = time.monotonic()
