"""A tiny aggregator for the tests of the agent, and a device to go with it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch

from edge_agent.protocol.replay import Newest, instruction_key
from edge_agent.state.store import Store, learned_path
from models.build import build
from models.spec import PrototypeSpec, parse_prototype
from quant.pack import pack_state
from transport.config import BrokerConfig
from transport.link import Connected, Link, Received
from wire.board_reports import LogTail, Telemetry
from wire.chunks import Content, decode_chunk, encode_chunk
from wire.codec import decode_message, encode_message
from wire.envelope import open_envelope, seal
from wire.headers import decode_update, encode_model
from wire.ids import AGGREGATOR, digest_of, transfer_id
from wire.keys import generate_key, public_key_hex, save_private_key
from wire.messages import (
    About,
    Accepted,
    Desired,
    Hyper,
    Job,
    Message,
    Metrics,
    Missing,
    ModelHeader,
    Offer,
    Rejected,
    Reported,
    State,
    UpdateHeader,
)
from wire.storage import MemoryStorage
from wire.tensors import Tensor, decode, encode
from wire.topics import DeviceTopic, ModelChunk, UpdateChunk, aggregator_filters, parse
from wire.transfer import Receiver
from wire.uplink import addressed

ROOT = Path(__file__).resolve().parents[2]
FLEET, DEVICE, PROTOTYPE = "f", "pi-1", "mlp:fp32"
SHAPE, CLASSES, LATENT = (1, 4, 4), 3, 8
AGENT = "from edgestill.cli.service.agent import app; app(prog_name='agent')"
KEY = generate_key()  # the aggregator's
EPOCH = 1_760_000_000


def make_artifact(
    prototype: str = PROTOTYPE,
    seed: int = 0,
    number: int = 0,
    metrics: Mapping[str, float] = MappingProxyType({}),
    tensors: Mapping[str, Tensor] | None = None,
) -> tuple[str, bytes]:
    """A published model: its digest and its sealed bytes."""
    arch, precision = parse_prototype(prototype)
    spec = PrototypeSpec(arch, precision, SHAPE, CLASSES, LATENT)
    if tensors is None:
        tensors = pack_state(build(spec, generator=torch.Generator().manual_seed(seed)).state_dict())
    header = ModelHeader(
        round=number,
        prototype=prototype,
        input_shape=SHAPE,
        classes=CLASSES,
        latent=LATENT,
        recipe="start",
        metrics=dict(metrics),
    )
    payload = encode_model(header, encode(tensors))
    nonce = bytes.fromhex(digest_of(payload))[:12]
    sealed = seal(payload, key=KEY, kind="model", sender=AGGREGATOR, fleet=FLEET, round=number, nonce=nonce)
    return digest_of(sealed), sealed


DIGEST, SEALED = make_artifact()


def make_job(digest: str, of_round: int = 1, **other: object) -> Job:
    facts = {
        "round": of_round,
        "deadline": time.time() + 600,
        "prototype": PROTOTYPE,
        "update": "state",
        "hyper": Hyper(batch_size=4, lr=0.1, epochs=2, seed=7),
        "model": digest,
        "device": DEVICE,
        "epoch": EPOCH,
        "number": of_round,
    }
    return Job(**(facts | other))


def make_offer(digest: str, of_round: int = 0, **other: object) -> Offer:
    facts = {
        "round": of_round,
        "prototype": PROTOTYPE,
        "model": digest,
        "device": DEVICE,
        "epoch": EPOCH,
        "number": of_round + 1,
    }
    return Offer(**(facts | other))


def write_samples(path: Path, n: int = 24, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % CLASSES
    x = rng.normal(size=(n, *SHAPE)).astype(np.float32) + 2 * y[:, None, None, None]
    np.savez(path, x=x.astype(np.float32), y=y)


def write_device(folder: Path, port: int, extra: str = "") -> Path:
    """Config, key and samples of a device; the path of the config."""
    folder.mkdir(parents=True, exist_ok=True)
    save_private_key(generate_key(), folder / "device.pem")
    write_samples(folder / "samples.npz")
    config = folder / "agent.toml"
    config.write_text(f"""
[agent]
fleet = "{FLEET}"
device = "{DEVICE}"
state_dir = "state"
[broker]
port = {port}
[keys]
private = "device.pem"
aggregator = "{public_key_hex(KEY.public_key())}"
[model]
prototype = "{PROTOTYPE}"
[data]
path = "samples.npz"
{extra}
""")
    return config


def used(folder: Path, port: int = 1) -> tuple[Path, dict[str, Path]]:
    """A device that has worked before, and the files of its state folder by name."""
    config = write_device(folder, port)
    root = folder / "state"
    store = Store(root, prototype=PROTOTYPE)
    store.next_session()
    store.follow(Newest(epoch=EPOCH, round=1, numbers={PROTOTYPE: 1}))
    store.models.path(DIGEST).write_bytes(SEALED)
    key = instruction_key(make_job(DIGEST))
    (root / "outbox" / key).mkdir()
    (root / "outbox" / key / "update").write_bytes(b"u" * 1000)
    entry = f'{{"round": 1, "digest": "{digest_of(b"u" * 1000)}", "size": 1000, "update": "state"}}'
    (root / "outbox" / key / "entry.json").write_text(entry)
    (root / "taken").write_text("a" * 64)
    (root / "settings.json").write_text('{"version": 3, "settings": {"train.threads": "1"}}')
    for name in ("current.onnx", "current.safetensors", "current.json", "child.lock"):
        (root / name).write_bytes(b"something")
    for what in ("residual", "extractor", "label-logits"):
        learned_path(root, PROTOTYPE, what).write_bytes(b"something")
    store.close()
    files = {path.name: path for path in root.iterdir() if path.is_file()}
    files |= {"update": root / "outbox" / key / "update", "entry.json": root / "outbox" / key / "entry.json"}
    files["model"] = root / "models" / DIGEST
    files["learned"] = learned_path(root, PROTOTYPE, "residual")
    return config, files


def start_agent(config: Path, **environment: str) -> subprocess.Popen:
    """A real agent process; its log goes to agent.log beside the config."""
    with (config.parent / "agent.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-c", AGENT, "run", "--config", str(config)],
            stdout=log,
            stderr=log,
            cwd=ROOT,
            env={**os.environ, **environment},
        )


def wait_for(what: Callable[[], object], seconds: float = 600) -> None:
    """Until `what` holds. The deadline only ends a test that hangs: a busy machine may take its time."""
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "nothing came of it"
        time.sleep(0.02)


class ScriptedAggregator:
    """Publishes models and jobs, takes updates as docs/protocol.md says; remembers what it heard."""

    def __init__(self, broker: BrokerConfig, device_key, *, accept: bool = True, chunk: int = 1024) -> None:
        self.device_key, self.accept, self.chunk = device_key, accept, chunk
        self.heard: list[Message] = []
        self.updates: dict[str, bytes] = {}
        self.chunks: list[tuple[str, int]] = []
        self.retained: dict[str, bytes] = {}
        self.deaf_to: set[str] = set()  # transfers that are never answered
        self._receivers: dict[str, Receiver] = {}
        self._new: dict[str, int] = {}
        self._link = Link(broker, client_id="scripted", filters=aggregator_filters(FLEET))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> ScriptedAggregator:
        self._link.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._link.wake()
        self._thread.join(60)
        self._link.stop()

    @staticmethod
    def cut(sealed: bytes, chunk: int = 1024, digest: str | None = None) -> tuple[Content, list[bytes]]:
        content = Content(digest=digest or digest_of(sealed), size=len(sealed), chunk_size=chunk)
        spans = [content.span(n) for n in range(content.count)]
        return content, [encode_chunk(content, n, sealed[o : o + size]) for n, (o, size) in enumerate(spans)]

    def publish_model(self, sealed: bytes) -> None:
        content, chunks = self.cut(sealed, self.chunk)
        for n, chunk in enumerate(chunks):
            self._retain(str(ModelChunk(FLEET, content.digest, n)), chunk)

    def instruct(self, instruction: Job | Offer | None) -> None:
        topic = str(DeviceTopic(FLEET, DEVICE, "job"))
        self._retain(topic, b"" if instruction is None else self.sealed(instruction, "job"))

    def desire(self, version: int, device: str = DEVICE, **settings: str) -> None:
        named = {name.replace("__", "."): text for name, text in settings.items()}
        message = Desired(device=device, version=version, settings=named)
        self._retain(str(DeviceTopic(FLEET, DEVICE, "desired")), self.sealed(message, "desired"))

    def answer(self, ack: Message) -> None:
        self._link.publish(str(DeviceTopic(FLEET, DEVICE, "ack")), self.sealed(ack, "ack"))

    @staticmethod
    def sealed(message: Message, kind: str) -> bytes:
        return seal(encode_message(message), key=KEY, kind=kind, sender=AGGREGATOR, fleet=FLEET)

    def states(self) -> list[str]:
        return [m.status for m in self.heard if isinstance(m, State)]

    def abouts(self) -> list[About]:
        """What the device said of itself, without repetitions."""
        told = self.of_kind(About)
        return [about for i, about in enumerate(told) if about not in told[:i]]

    def of_kind(self, kind: type) -> list:
        return [m for m in self.heard if isinstance(m, kind)]

    def update(self) -> tuple[UpdateHeader, dict[str, Tensor]]:
        """The only update that came, checked and opened."""
        (sealed,) = self.updates.values()
        envelope = open_envelope(sealed, public_key=self.device_key, fleet=FLEET, sender=DEVICE, kinds=("update",))
        header, body = decode_update(envelope.payload)
        assert envelope.round == header.round
        return header, decode(body)

    def _retain(self, topic: str, payload: bytes) -> None:
        self.retained[topic] = payload
        self._link.publish(topic, payload, retain=True)

    def _run(self) -> None:
        while not self._stop.is_set():
            match self._link.next_event(1.0):
                case Connected():
                    for topic, payload in list(self.retained.items()):
                        self._link.publish(topic, payload, retain=True)
                case Received(topic, payload, _):
                    self._hear(topic, payload)

    def _hear(self, topic: str, payload: bytes) -> None:
        match addressed(parse(topic), payload):
            case UpdateChunk(_, _, transfer, n):
                self.chunks.append((transfer, n))
                if transfer not in self.deaf_to:
                    self._take_chunk(transfer, payload)
            case DeviceTopic(_, _, leaf):
                kinds = {"state": State, "about": About, "metrics": Metrics, "reported": Reported}
                kinds |= {"telemetry": Telemetry, "log": LogTail}
                envelope = open_envelope(payload, public_key=self.device_key, fleet=FLEET, sender=DEVICE, kinds=(leaf,))
                self.heard.append(decode_message(envelope.payload, kinds[leaf]))

    def _take_chunk(self, transfer: str, payload: bytes) -> None:
        chunk = decode_chunk(payload)
        assert transfer == transfer_id(chunk.content.digest)
        receiver = self._receivers.setdefault(transfer, Receiver(chunk.content, MemoryStorage(bytearray())))
        new = receiver.accept(chunk)
        self._new[transfer] = self._new.get(transfer, 0) + new
        if receiver.complete:
            receiver.finish()
            self._decide(transfer, bytes(receiver._storage.data))
        elif not new or self._new[transfer] % 2 == 0:
            self.answer(Missing(transfer=transfer, ranges=receiver.missing()))

    def _decide(self, transfer: str, sealed: bytes) -> None:
        envelope = open_envelope(sealed, public_key=self.device_key, fleet=FLEET, sender=DEVICE)
        self.updates[transfer] = sealed
        if self.accept:
            self.answer(Accepted(transfer=transfer, round=envelope.round))
        else:
            self.answer(Rejected(transfer=transfer, round=envelope.round, reason="late"))
