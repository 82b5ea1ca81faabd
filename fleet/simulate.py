"""A fleet on one machine, in one process: N devices, one model per prototype, rounds of local training and fusion.

Every update passes through the real encoding (`wire/`), signed, so the bytes that a run reports are those that would
cross the air.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from aggregator.evaluate import score_state
from aggregator.fusion import knowledge as fusion_knowledge
from aggregator.fusion import types as fusion
from aggregator.fusion.round import fuse_round
from aggregator.fusion.types import Memory, Received
from aggregator.intake import read_state
from aggregator.recipes import find_recipe
from edge_agent.knowledge import read_knowledge
from edge_agent.store import KEEPING
from fleet.config import SimulationConfig
from fleet.datasets import Dataset, hold_out
from fleet.device import FLEET, SimulatedDevice, Told, make_devices
from fleet.runs import PrototypeResult, RoundResult, Run, reported_metrics
from fleet.seeds import numpy_rng, torch_rng
from fleet.server_side import server_side
from models.build import build
from models.roles import split_extra
from models.spec import PrototypeSpec, parse_prototype
from models.split import Prototype
from quant.pack import pack_state, unpack
from wire.envelope import open_envelope
from wire.errors import TensorError
from wire.messages import ModelHeader
from wire.tensors import decode, encode
from wire.update import decode_update

__all__ = ["Group", "Simulation"]

OnDevice = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class Group:
    """One prototype: its devices, and its model as the aggregator has it.

    One module serves them all: simulated devices train one after another.
    """

    name: str
    devices: list[SimulatedDevice]
    model: Prototype
    state: dict[str, torch.Tensor]  # full precision
    shapes: dict[str, tuple[int, ...]]  # what an update must look like


@dataclass(frozen=True, slots=True, kw_only=True)
class _Collected:
    """What a group's devices sent in a round, and facts for its result."""

    group: fusion.Group
    facts: dict[str, Any]


class Simulation:
    """A fleet and its aggregator; call `run_round(1)`, `run_round(2)`, … in turn."""

    def __init__(self, config: SimulationConfig, dataset: Dataset) -> None:
        self.config = config
        self.recipe = find_recipe(config.recipe, config.fusion)
        dataset = dataset if len(dataset.y_test) else hold_out(dataset, seed=config.seed)
        self.test_x = torch.from_numpy(dataset.inputs(dataset.x_test))
        self.test_y = torch.from_numpy(dataset.y_test.copy())
        self.server, dataset = server_side(config, self.recipe, dataset, (self.test_x, self.test_y))
        devices = make_devices(config, dataset)
        self.memory = Memory()
        self.told = Told(update=self.recipe.update or config.update, extra=self.recipe.local)
        self.guide_bytes = 0  # of what devices are sent to learn from beside their models
        self.groups = [self._make_group(name, devices, dataset) for name in config.prototypes]

    def _make_group(self, name: str, devices: list[SimulatedDevice], dataset: Dataset) -> Group:
        arch, precision = parse_prototype(name)
        spec = PrototypeSpec(arch, precision, dataset.input_shape, dataset.classes, self.config.latent)
        model = build(spec, generator=torch_rng(self.config.seed, "init", name))
        state = unpack(pack_state(model.state_dict(), floats="fp32"))
        shapes = {key: tuple(value.shape) for key, value in state.items()}
        mine = [d for d in devices if d.prototype == name]
        return Group(name=name, devices=mine, model=model, state=state, shapes=shapes)

    def invited(self, group: Group, number: int) -> list[SimulatedDevice]:
        """max(C * K, 1) of the group's K devices, uniformly (McMahan et al. 2017, Algorithm 1), by seed and round."""
        count = max(round(self.config.fraction * len(group.devices)), 1)
        rng = numpy_rng(self.config.seed, "invite", number, group.name)
        return [group.devices[i] for i in sorted(rng.choice(len(group.devices), count, replace=False))]

    @property
    def per_round(self) -> int:
        """How many devices a round invites."""
        return sum(len(self.invited(group, 1)) for group in self.groups)

    def run_round(self, number: int, *, on_device: OnDevice = lambda _: None) -> RoundResult:
        """Invite, train, fuse and score every prototype."""
        start = time.perf_counter()
        seconds = {"train": 0.0, "encode": 0.0}
        sent = [self._collect(group, number, on_device, seconds) for group in self.groups]
        fused = fuse_round(self.recipe, [s.group for s in sent], self.server, number, self.memory)
        self.memory = fused.memory
        self._publish(fused.knowledge)
        results = {}
        for group, collected in zip(self.groups, sent, strict=True):
            group.state = dict(fused.states[group.name])
            scores = score_state(group.model, group.state, self.test_x, self.test_y)
            results[group.name] = PrototypeResult(
                **{**collected.facts, **scores},
                **reported_metrics(fused.metrics[group.name]),
                device_accuracy=self._device_accuracy(group, collected.group),
            )
        return RoundResult(
            round=number,
            prototypes=results,
            seconds=time.perf_counter() - start,
            devices={name: asdict(report) for name, report in fused.devices.items()},
            seconds_by={**seconds, **fused.seconds},
        )

    def _publish(self, made: fusion_knowledge.Knowledge | None) -> None:
        """Have devices learn from this in the next round, as they read it from the wire."""
        if made is None:
            return
        body = encode(pack_state(made.tensors, floats="fp16"))
        header = ModelHeader(
            round=0,
            prototype=made.prototype,
            input_shape=made.input_shape,
            classes=made.classes,
            latent=made.latent,
            recipe=self.recipe.name,
        )
        self.told = replace(self.told, knowledge=read_knowledge(header, decode(body)))
        self.guide_bytes = len(body)

    def device_state(self, group: Group, device: SimulatedDevice) -> dict[str, torch.Tensor]:
        """The device's own model, with what the aggregator has fused in place of what it shares."""
        published = encode(pack_state(group.state, floats="fp32"))
        return unpack(decode(device.start(self.told.update, published)))

    def _device_accuracy(self, group: Group, collected: fusion.Group) -> float | None:
        if self.told.update not in KEEPING or not self.config.score_devices or not collected.updates:
            return None
        who = {update.device for update in collected.updates}
        test = self.test_x, self.test_y
        own = [self.device_state(group, device) for device in group.devices if device.id in who]
        return float(np.mean([score_state(group.model, state, *test)["accuracy"] for state in own]))

    def _collect(self, group: Group, number: int, on_device: OnDevice, seconds: dict[str, float]) -> _Collected:
        """Have the group's devices train; their updates, as the aggregator reads them from the wire."""
        floats = self.config.floats_of(group.model.spec.precision.quantized)
        published = encode(pack_state(group.state, floats=floats))
        updates, losses, bytes_up = [], [], 0
        for device in self.invited(group, number):
            begun = time.perf_counter()
            try:
                message = device.answer(group.model, published, self.config, number, self.told)
            except TensorError:  # it diverged: NaN does not travel, the device has nothing to send
                on_device(device.id)
                continue
            trained = time.perf_counter()
            envelope = open_envelope(message, public_key=device.key.public_key(), fleet=FLEET, sender=device.id)
            header, body = decode_update(envelope.payload)
            tensors, extra = split_extra(decode(body))
            state = read_state(device.id, tensors, group.shapes, header.update)
            updates.append(
                Received(
                    device=device.id,
                    num_examples=header.num_examples,
                    state=_held(state),
                    label_counts=header.label_counts,
                    predictor_only=header.update == "predictor",
                    model=header.update != "logits",
                    extra=_held(unpack(extra)),
                )
            )
            losses.append(header.metrics.get("train_loss", math.nan))
            bytes_up += len(message)
            seconds["train"] += trained - begun
            seconds["encode"] += time.perf_counter() - trained
            on_device(device.id)
        return _Collected(
            group=fusion.Group(spec=group.model.spec, previous=unpack(decode(published)), updates=updates),
            facts={
                "train_loss": _mean_loss(losses, [u.num_examples for u in updates]),
                "devices": len(updates),
                "bytes_up": bytes_up,
                "bytes_down": (len(published) + self.guide_bytes) * len(updates),
            },
        )

    def new_run(self) -> Run:
        """An empty run of this fleet."""
        devices = sorted((d for g in self.groups for d in g.devices), key=lambda d: d.id)
        facts = [
            {
                "device": d.id,
                "prototype": d.prototype,
                "examples": len(d.y),
                "labels": list(d.label_counts),
                **({} if d.attack is None else {"attack": d.attack.name}),
            }
            for d in devices
        ]
        return Run(config=self.config.to_json(), fleet=facts)


def _mean_loss(losses: list[float], examples: list[int]) -> float | None:
    loss = float(np.average(losses, weights=examples)) if losses else math.nan
    return loss if math.isfinite(loss) else None


def _held(state: dict[str, torch.Tensor]) -> Callable[[], dict[str, torch.Tensor]]:
    return lambda: state
