"""One simulated device: what it has, keeps from round to round, and how it answers a round, honestly or not."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from edge_agent.knowledge import Knowledge
from edge_agent.label_logits import LabelLogits
from edge_agent.objective import counts_logits, make_objective
from edge_agent.private_counts import told_counts, told_examples
from edge_agent.store import EXTRACTOR, KEEPING, LABEL_LOGITS
from edge_agent.updates import share, with_own
from edge_agent.work import local_update
from fleet.attacks import Attack
from fleet.config import SimulationConfig
from fleet.datasets import Dataset
from fleet.partition import partition
from fleet.seeds import numpy_rng, torch_rng
from models.split import Prototype
from quant.pack import pack, pack_state, snap_, unpack
from wire.envelope import seal
from wire.errors import ConfigError
from wire.keys import Ed25519PrivateKey
from wire.messages import UpdateHeader
from wire.tensors import Tensor, decode
from wire.update import encode_update

__all__ = ["FLEET", "SimulatedDevice", "Told", "make_devices"]

FLEET = "simulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a job says beside the model and the hyper-parameters of all."""

    update: str = "state"
    extra: Mapping[str, float] = field(default_factory=dict)
    knowledge: Knowledge = field(default_factory=Knowledge)


NOTHING = Told()


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
    kept: dict[str, Any] = field(default_factory=dict)  # what stays on the device from round to round

    def start(self, update: str, published: bytes) -> bytes:
        """The published model, under the device's own tensors if it keeps some."""
        return with_own(update, published, self.kept.get(EXTRACTOR)) if update in KEEPING else published

    def answer(
        self, model: Prototype, published: bytes, config: SimulationConfig, number: int, told: Told = NOTHING
    ) -> bytes:
        """The signed update for round `number`."""
        seen = None
        if counts_logits(told.extra):
            seen = self.kept.setdefault(LABEL_LOGITS, LabelLogits.fresh(model.spec.classes))
        tensors, trained = local_update(
            model,
            self.start(told.update, published),
            self.x,
            self.y,
            config.training,
            floats=config.floats_of(model.spec.precision.quantized),
            generator=torch_rng(config.seed, "train", number, self.id),
            objective=make_objective(
                told.knowledge, told.extra, seed=config.seed, number=number, device=self.id, seen=seen
            ),
        )
        if self.attack is not None and self.attack.tampers:
            tensors = self._tampered(self.attack, model, published, config, number)
        floats = config.floats_of(model.spec.precision.quantized)
        extra = {} if seen is None else pack_state({LABEL_LOGITS: seen.means()}, floats=floats)
        made = share(told.update, model, tensors, extra)
        self.kept.update({name: decode(data) for name, data in made.keep.items()})
        header = UpdateHeader(
            round=number,
            device=self.id,
            prototype=self.prototype,
            update=told.update,  # type: ignore[arg-type]
            num_examples=told_examples(self.label_counts),
            label_counts=self.label_counts,
            base=hashlib.sha256(published).hexdigest(),
            metrics={"train_loss": trained.loss} if math.isfinite(trained.loss) else {},
        )
        payload = encode_update(header, made.body)
        return seal(payload, key=self.key, kind="update", sender=self.id, fleet=FLEET, round=number)

    def _tampered(
        self, attack: Attack, model: Prototype, published: bytes, config: SimulationConfig, number: int
    ) -> dict[str, Tensor]:
        """What an attacker packs instead of the model that it has trained."""
        floats = config.floats_of(model.spec.precision.quantized)
        attack.tamper_(model, unpack(decode(published)), torch_rng(config.seed, "attack", number, self.id))
        snap_(model, floats=floats)
        return pack(model, floats=floats)


def _told(config: SimulationConfig, counts: list[int], key: Ed25519PrivateKey) -> tuple[int, ...]:
    secret = key.private_bytes_raw()
    return told_counts(counts, secret=secret, epsilon=config.count_epsilon, width=config.count_bins)


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
        key = Ed25519PrivateKey.from_private_bytes(numpy_rng(config.seed, "key", i).bytes(32))
        devices.append(
            SimulatedDevice(
                id=f"sim-{i:0{width}d}",
                prototype=config.prototypes[i % len(config.prototypes)],
                x=torch.from_numpy(dataset.inputs(dataset.x_train[part])),
                y=y,
                label_counts=_told(config, torch.bincount(y, minlength=dataset.classes).tolist(), key),
                key=key,
                attack=attack,
            )
        )
    return devices
