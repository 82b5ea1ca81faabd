"""FedRAD's fleet (Sturluson et al. 2021): 30 devices with MNIST, some of them faulty or malicious, and its rounds.

The rounds are made of the parts that devices and aggregator have, without the wire between them: local training, the
attacks of `fleet/attacks/builtin.py`, `fuse_round`. Only the gradient is taken by hand (`step.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from aggregator.evaluate import evaluate
from aggregator.fusion.pipeline.round import fuse_round
from aggregator.fusion.types import Fused, Group, Memory, Received, Server, State
from aggregator.recipes.catalogue import Recipe, find_recipe
from core.errors import RoundError
from fleet.attacks.builtin import Attack, parse_attacks, seat
from fleet.data import Dataset
from fleet.experiments.base import UNCAPPED
from fleet.experiments.fedrad.authors import dropout_error, fuse_with_dropout
from fleet.experiments.fedrad.plans import Plan
from fleet.experiments.fedrad.step import train_by_hand
from fleet.partition import fedrad, fedrad_iid, fedrad_server
from fleet.simulation.seeds import numpy_rng, torch_rng
from models.build import build
from models.spec import PrototypeSpec, parse_prototype
from models.split import Prototype

__all__ = ["Device", "Fleet", "RoundFacts", "make_fleet", "rounds"]

DEVICES = 30
LATENT = 256  # the second hidden layer: no adapter between extractor and predictor


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """Its images, its labels as its attack has them, and the attack."""

    id: str
    x: Tensor
    y: Tensor
    attack: Attack | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Everybody, at the start."""

    spec: PrototypeSpec
    recipe: Recipe
    devices: Sequence[Device]
    server: Server
    test: tuple[Tensor, Tensor]
    plan: Plan
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFacts:
    """One round; errors in percent."""

    error: float  # of the fused model on the test set
    best_step: int | None  # of the distillation that was kept; None: the recipe has none
    harm: float  # the attackers' share in the average
    seconds: Mapping[str, float]  # of fusion, by stage


def make_fleet(dataset: Dataset, recipe: str, alpha: float | None, attack: str, plan: Plan, *, seed: int) -> Fleet:
    """The fleet of one cell: `alpha` of the Dirichlet draw, None for IID; `attack` as `--attack` has it.

    A device that the draw leaves without images takes no part.
    """
    found = _recipe(recipe, plan)
    held, rest = fedrad_server(len(dataset.y_train), seed=numpy_rng(seed, "server"))
    if not (found.needs_source or plan.withhold):
        held, rest = held[:0], torch.arange(len(dataset.y_train)).numpy()
    labels = dataset.y_train[rest]
    split = fedrad_iid(labels, DEVICES, seed=seed) if alpha is None else fedrad(labels, DEVICES, alpha=alpha, seed=seed)
    attackers = seat(parse_attacks(attack), DEVICES)
    inputs = _inputs(dataset)
    devices = [
        _device(
            i, inputs(dataset.x_train[rest[part]]), torch.from_numpy(labels[part]), attackers.get(i), dataset.classes
        )
        for i, part in enumerate(split)
        if len(part)
    ]
    server = Server(seed=seed)
    if found.needs_source:
        x, y = inputs(dataset.x_train[held]), torch.from_numpy(dataset.y_train[held])
        validation = (x[: plan.validation], y[: plan.validation]) if plan.validation else None
        server = Server(seed=seed, source=x[plan.validation :], validation=validation)
    return Fleet(
        spec=_spec(dataset),
        recipe=found,
        devices=devices,
        server=server,
        test=(inputs(dataset.x_test), torch.from_numpy(dataset.y_test.copy())),
        plan=plan,
        seed=seed,
    )


def _recipe(name: str, plan: Plan) -> Recipe:
    overrides: dict[str, Any] = dict(UNCAPPED)
    overrides |= {"server_momentum": plan.server_momentum} if plan.server_momentum else {}
    overrides |= plan.fusion if find_recipe(name).needs_source else {}
    overrides |= plan.fedrad if name == "fedrad" else {}
    return find_recipe(name, overrides)


def _spec(dataset: Dataset) -> PrototypeSpec:
    arch, precision = parse_prototype("fedrad_mlp:fp32")
    return PrototypeSpec(
        arch=arch, precision=precision, input_shape=dataset.input_shape, classes=dataset.classes, latent=LATENT
    )


def _inputs(dataset: Dataset) -> Callable[[Any], Tensor]:
    return lambda x: torch.from_numpy(dataset.inputs(x))


def _device(number: int, x: Tensor, y: Tensor, attack: Attack | None, classes: int) -> Device:
    return Device(id=f"sim-{number:02}", x=x, y=y if attack is None else attack.labels(y, classes), attack=attack)


def rounds(fleet: Fleet) -> Iterator[RoundFacts]:
    """Train and fuse, round by round."""
    model = build(fleet.spec, generator=torch_rng(fleet.seed, "init"))
    state = {name: value.clone() for name, value in model.state_dict().items()}
    memory = Memory()
    fuse = fuse_with_dropout if fleet.plan.authors and fleet.recipe.needs_source else fuse_round
    for number in range(1, fleet.plan.rounds + 1):
        updates = [_update(device, model, state, fleet, number) for device in fleet.devices]
        group = Group(spec=fleet.spec, previous=state, updates=[update for update in updates if _taken_in(update)])
        try:
            fused = fuse(fleet.recipe, [group], fleet.server, number, memory)
        except RoundError:  # such as of teachers that all overflow: as at the aggregator, the model stays
            fused = Fused(states={group.name: state}, memory=memory, devices={}, metrics={group.name: {}}, seconds={})
        state, memory = dict(fused.states[group.name]), fused.memory
        yield _facts(fused, group.name, _error(model, state, fleet, number), fleet.devices)


def _update(device: Device, model: Prototype, state: State, fleet: Fleet, number: int) -> Received:
    """What the device sends: trained from `state` and, if it attacks, tampered with."""
    plan, attack = fleet.plan, device.attack
    model.load_state_dict(state)
    if attack is None or attack.name != "faulty" or plan.train_faulty:
        rng = torch_rng(fleet.seed, "train", number, device.id)
        how = plan.of_round(number)
        train_by_hand(model, device.x, device.y, how, generator=rng, softmax_first=plan.authors)
    if attack is not None and attack.tampers:
        attack.tamper_(model, state, torch_rng(fleet.seed, "attack", number, device.id))
    sent = {name: value.clone() for name, value in model.state_dict().items()}
    return Received(device=device.id, num_examples=len(device.y), state=partial(dict, sent))


def _taken_in(update: Received) -> bool:
    """As the aggregator's intake: an update with NaN or infinity, such as of training that diverged, is refused."""
    return all(bool(w.isfinite().all()) for w in update.state().values())


def _error(model: Prototype, state: State, fleet: Fleet, number: int) -> float:
    """In percent; with dropout, if that is the plan."""
    model.load_state_dict(state)
    x, y = fleet.test
    if not fleet.plan.authors:
        return 100 * (1 - evaluate(model, x, y).accuracy)
    return 100 * dropout_error(model, x, y, torch_rng(fleet.seed, "test", number))


def _facts(fused: Fused, name: str, error: float, devices: Sequence[Device]) -> RoundFacts:
    step = fused.metrics[name].get("distill_best_step")
    return RoundFacts(
        error=error,
        best_step=None if step is None else int(step),
        harm=sum(
            fused.devices[device.id].weight
            for device in devices
            if device.attack is not None and device.id in fused.devices
        ),
        seconds=dict(fused.seconds),
    )
