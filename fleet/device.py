"""One simulated device: what it has, and how it answers a round, honestly or not."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import torch

from edge_agent.work import local_update
from fleet.attacks import Attack
from fleet.config import SimulationConfig
from fleet.datasets import Dataset
from fleet.partition import partition
from fleet.seeds import numpy_rng, torch_rng
from models.split import Prototype
from quant.pack import pack, snap_, unpack
from wire.envelope import seal
from wire.errors import ConfigError
from wire.keys import Ed25519PrivateKey
from wire.messages import UpdateHeader
from wire.tensors import Tensor, decode, encode
from wire.update import encode_update

__all__ = ["FLEET", "SimulatedDevice", "make_devices"]

FLEET = "simulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedDevice:
    """One device: its prototype, its own samples, its signing key."""

    id: str
    prototype: str
    x: torch.Tensor
    y: torch.Tensor
    label_counts: tuple[int, ...]
    key: Ed25519PrivateKey
    attack: Attack | None = None

    def answer(self, model: Prototype, published: bytes, config: SimulationConfig, number: int) -> bytes:
        """The signed update for round `number`."""
        tensors, trained = local_update(
            model,
            published,
            self.x,
            self.y,
            config.training,
            floats=config.floats_of(model.spec.precision.quantized),
            generator=torch_rng(config.seed, "train", number, self.id),
        )
        if self.attack is not None and self.attack.tampers:
            tensors = self._tampered(self.attack, model, published, config, number)
        header = UpdateHeader(
            round=number,
            device=self.id,
            prototype=self.prototype,
            update="state",
            num_examples=len(self.y),
            label_counts=self.label_counts,
            base=hashlib.sha256(published).hexdigest(),
            metrics={"train_loss": trained.loss} if math.isfinite(trained.loss) else {},
        )
        payload = encode_update(header, encode(tensors))
        return seal(payload, key=self.key, kind="update", sender=self.id, fleet=FLEET, round=number)

    def _tampered(
        self, attack: Attack, model: Prototype, published: bytes, config: SimulationConfig, number: int
    ) -> dict[str, Tensor]:
        """What an attacker packs instead of the model that it has trained."""
        floats = config.floats_of(model.spec.precision.quantized)
        attack.tamper_(model, unpack(decode(published)), torch_rng(config.seed, "attack", number, self.id))
        snap_(model, floats=floats)
        return pack(model, floats=floats)


def make_devices(config: SimulationConfig, dataset: Dataset) -> list[SimulatedDevice]:
    """N devices; device i has prototype i mod P and the i-th part of the training set."""
    parts = partition(
        config.partition,
        dataset.y_train,
        devices=config.devices,
        alpha=config.alpha,
        seed=config.seed,
        **config.options,
    )
    width = len(str(config.devices - 1))
    attackers = config.attackers
    devices = []
    for i, part in enumerate(parts):
        if not len(part):
            raise ConfigError(f"device {i} got no samples; give fewer devices, more data or a larger alpha")
        attack = attackers.get(i)
        y = torch.from_numpy(dataset.y_train[part])
        if attack is not None:
            y = attack.labels(y, dataset.classes)
        devices.append(
            SimulatedDevice(
                id=f"sim-{i:0{width}d}",
                prototype=config.prototypes[i % len(config.prototypes)],
                x=torch.from_numpy(dataset.inputs(dataset.x_train[part])),
                y=y,
                label_counts=tuple(torch.bincount(y, minlength=dataset.classes).tolist()),
                key=Ed25519PrivateKey.from_private_bytes(numpy_rng(config.seed, "key", i).bytes(32)),
                attack=attack,
            )
        )
    return devices
