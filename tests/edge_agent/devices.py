"""A device's files for tests of what its training child does."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from core.seeds import derive_seed
from edge_agent.child.full import local_training
from edge_agent.child.request import Request
from edge_agent.protocol.agent import instruction_key
from edge_agent.state.store import Store
from edge_agent.training.local_round import local_update
from models.build import build
from models.samples import load_samples
from models.spec import PrototypeSpec, parse_prototype
from tests.edge_agent.scripted import (
    CLASSES,
    DEVICE,
    FLEET,
    KEY,
    LATENT,
    PROTOTYPE,
    SHAPE,
    make_artifact,
    make_job,
    write_samples,
)
from wire.envelope import open_envelope
from wire.headers import decode_model, decode_update
from wire.keys import generate_key, load_private_key, public_key_hex, save_private_key
from wire.messages import Job, UpdateHeader
from wire.tensors import Packed, Tensor, decode


@dataclass
class Device:
    """A device's files, and a child to run on them."""

    folder: Path
    prototype: str = PROTOTYPE

    def __post_init__(self) -> None:
        save_private_key(generate_key(), self.folder / "device.pem")
        write_samples(self.folder / "samples.npz")
        self.store = Store(self.folder / "state", prototype=self.prototype)
        self.digest, self.sealed = make_artifact(self.prototype)
        self.put(self.digest, self.sealed)

    def put(self, digest: str, sealed: bytes) -> None:
        self.store.models.path(digest).write_bytes(sealed)

    def job(self, number: int = 1, **other: object) -> Job:
        return make_job(self.digest, number, prototype=self.prototype, **other)

    def request(self, job: Job | None, **other: object) -> Request:
        facts = {
            "parent": os.getpid(),
            "key": "offer-x" if job is None else instruction_key(job),
            "state_dir": str(self.folder / "state"),
            "fleet": FLEET,
            "device": DEVICE,
            "private_key": str(self.folder / "device.pem"),
            "aggregator": public_key_hex(KEY.public_key()),
            "prototype": self.prototype,
            "model": str(self.store.models.path(self.digest)),
            "base": self.digest,
            "data": str(self.folder / "samples.npz"),
            "validation": 0.0,
            "refuse_worse": False,
            "floats": "fp32",
            "threads": 1,
            "nice": 0,
            "memory_mb": None,
        }
        if job is not None:
            facts |= {"round": job.round, "hyper": job.hyper, "update": job.update, "bits": job.bits}
        return Request(**(facts | other))

    def update(self, job: Job) -> tuple[UpdateHeader, bytes]:
        sealed = (self.folder / "state" / "outbox" / instruction_key(job) / "update").read_bytes()
        key = load_private_key(self.folder / "device.pem").public_key()
        return decode_update(open_envelope(sealed, public_key=key, fleet=FLEET, sender=DEVICE).payload)

    def settle(self, job: Job, *, accepted: bool = True) -> None:
        key = instruction_key(job)
        self.store.take_job(key)
        self.store.settle(self.store.spooled(key), accepted=accepted)


def expected(device: Device, job: Job) -> dict[str, Tensor]:
    """The update as the simulated fleet computes it, in this process."""
    return twin_update(device.folder / "samples.npz", device.sealed, job)


def twin_update(samples_path: Path, sealed: bytes, job: Job) -> dict[str, Tensor]:
    """What a simulated twin with these samples answers to `job`."""
    arch, precision = parse_prototype(job.prototype)
    model = build(PrototypeSpec(arch, precision, SHAPE, CLASSES, LATENT))
    samples = load_samples(samples_path)
    envelope = open_envelope(sealed, public_key=KEY.public_key(), fleet=FLEET)
    seed = derive_seed(job.hyper.seed, "train", job.round, DEVICE)
    return local_update(
        model,
        decode_model(envelope.payload)[1],
        torch.from_numpy(samples.x),
        torch.from_numpy(samples.y),
        local_training(job.hyper),
        floats="fp32",
        generator=torch.Generator().manual_seed(seed),
    )[0]


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    def parts(tensor: Tensor) -> list[bytes]:
        if isinstance(tensor, Packed):
            return [
                tensor.levels.tobytes(),
                tensor.scale.tobytes(),
                b"" if tensor.mean is None else tensor.mean.tobytes(),
            ]
        return [tensor.tobytes()]

    return a.keys() == b.keys() and all(parts(a[name]) == parts(b[name]) for name in a)


def alike(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """The same levels; scales and means that NumPy and torch have rounded may be neighbours in float16."""

    def close(one: Tensor, other: Tensor) -> bool:
        if not isinstance(one, Packed) or not isinstance(other, Packed):
            return same({"": one}, {"": other})
        pairs = [(one.scale, other.scale), (one.mean, other.mean)]
        near = [
            bool(np.all(abs(x.astype(np.float32) - y.astype(np.float32)) <= 2 * np.spacing(abs(y).astype(np.float16))))
            for x, y in pairs
            if x is not None and y is not None
        ]
        return np.array_equal(one.levels, other.levels) and all(near) and (one.mean is None) == (other.mean is None)

    return a.keys() == b.keys() and all(close(a[name], b[name]) for name in a)


def published(device: Device) -> dict[str, Tensor]:
    envelope = open_envelope(device.sealed, public_key=KEY.public_key(), fleet=FLEET)
    return decode(decode_model(envelope.payload)[1])
