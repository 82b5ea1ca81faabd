"""Attacks of simulated adversarial devices. Imports no torch until an attack is executed.

w_prev is the model that the device received, w the model after its training, C the number of classes:

    faulty       trains honestly, sends  w + s N(0, 1)  on every parameter     s = 20 (Sturluson et al. 2021)
    malicious    trains with every label 0                                     (Sturluson et al. 2021)
    label-flip   trains with the labels  C - 1 - y
    sign-flip    sends  w_prev - s (w - w_prev)                                s = 1
    scaled       model replacement: sends  w_prev + s (w - w_prev)             s = 10
    free-rider   sends w_prev
    inflate      trains and sends honestly, and claims s times its examples    s = 2^20

An attack is written `NAME:COUNT`, `NAME=S:COUNT` with another s, or `NAME@ID+ID` for devices by index from 0; several
are joined by commas: `faulty:6,malicious:4`, `scaled=5@2+7`. Attacks of users (`fleet/attacks/plugins.py`) have the
same syntax; those that tamper have s = 1 by default.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from core.errors import ConfigError, did_you_mean
from core.limits import DEVICES
from core.seeds import derive_seed
from fleet.attacks.plugins import kind_of, own_labels, own_names, own_tamper
from wire.messages import MAX_COUNT

if TYPE_CHECKING:
    import torch
    from torch import nn

__all__ = ["ATTACKS", "Attack", "Order", "check_over_mqtt", "parse_attacks", "seat"]

#: Default s by name; None: the attack has no strength.
ATTACKS: Mapping[str, float | None] = {
    "faulty": 20.0,
    "malicious": None,
    "label-flip": None,
    "sign-flip": 1.0,
    "scaled": 10.0,
    "free-rider": None,
    "inflate": 2.0**20,
}
_OF_DATA = ("malicious", "label-flip")
_OF_CLAIM = "inflate"
HOW = "write NAME:COUNT or NAME@ID+ID, such as faulty:6,malicious:4"


@dataclass(frozen=True, slots=True)
class Attack:
    """The attack of one device."""

    name: str
    strength: float | None = None  # s

    @property
    def tampers(self) -> bool:
        """Whether the attack changes the model that is sent; the others change the labels or the claimed examples."""
        return self.name not in (*_OF_DATA, _OF_CLAIM) if self.name in ATTACKS else kind_of(self.name) == "tamper"

    def claims(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        """The falsified label counts; their sum is bounded by the largest count of the wire format."""
        if self.name != _OF_CLAIM or not any(counts):
            return counts
        assert self.strength is not None
        total = sum(counts)
        claimed = min(int(total * self.strength), MAX_COUNT)
        return tuple(count * claimed // total for count in counts)

    def labels(self, y: torch.Tensor, classes: int) -> torch.Tensor:
        """The labels that the device trains with."""
        if self.name not in ATTACKS:
            return y if self.tampers else own_labels(self.name, y, classes)
        if self.name == "malicious":
            return y * 0
        return classes - 1 - y if self.name == "label-flip" else y

    def tamper(
        self, trained: Mapping[str, torch.Tensor], received: Mapping[str, torch.Tensor], generator: torch.Generator
    ) -> dict[str, torch.Tensor]:
        """The parameters to send, by name, in the order of `trained`."""
        if self.name == "free-rider":
            return {name: received[name] for name in trained}
        if not self.tampers:
            return dict(trained)
        if self.name not in ATTACKS:
            return own_tamper(self.name, trained, received, generator, self.strength)
        s = self.strength
        assert s is not None, "every other one that tampers has a strength"
        if self.name == "faulty":
            return {name: w + s * _normal(w, generator) for name, w in trained.items()}
        s = -s if self.name == "sign-flip" else s
        return {name: received[name] + s * (w - received[name]) for name, w in trained.items()}

    def tamper_(self, model: nn.Module, received: Mapping[str, torch.Tensor], generator: torch.Generator) -> None:
        """Change the trained `model` in place, before it is packed and, if applicable, quantized.

        Only parameters are changed, as in FedRAD's code: a tampered running variance could be negative, which would
        expose the device at once. A free-rider also sends the received buffers.
        """
        import torch

        wanted = model.state_dict() if self.name == "free-rider" else dict(model.named_parameters())
        target = {name: value for name, value in wanted.items() if name in received}
        with torch.no_grad():
            for name, value in self.tamper(target, received, generator).items():
                target[name].copy_(value)


@dataclass(frozen=True, slots=True)
class Order:
    """An attack and its devices: a count, or their indices."""

    attack: Attack
    count: int
    ids: tuple[int, ...] = ()


def parse_attacks(text: str) -> tuple[Order, ...]:
    """Parse a list such as `faulty:6,malicious:4`; an empty text gives no orders.

    >>> parse_attacks("faulty:2,scaled=5@3+7")[1]
    Order(attack=Attack(name='scaled', strength=5.0), count=2, ids=(3, 7))
    """
    return tuple(_order(piece.strip()) for piece in text.split(",") if piece.strip())


def _order(text: str) -> Order:
    file = re.match(r".*\.py:[A-Za-z_]\w*", text)  # drift.py:drift=2:3
    own, rest = (file[0], text[file.end() :]) if file else ("", text)
    by_id = "@" in rest
    head, _, tail = rest.partition("@" if by_id else ":")
    name, given, strength = (word.strip() for word in f"{own}{head}".partition("="))
    if name not in ATTACKS and name not in own_names():
        known = (*ATTACKS, *own_names())
        raise ConfigError(f"--attack {text!r}: unknown attack; known: {' '.join(known)}{did_you_mean(name, known)}")
    attack = Attack(name, _strength(text, name, strength) if given else _usual_strength(name))
    numbers = tail.split("+") if by_id else [tail]
    if not all(n.strip().isdecimal() and len(n) <= 9 for n in numbers):
        raise ConfigError(f"--attack {text[:80]!r}: {HOW}")
    ids = tuple(int(n) for n in numbers)
    DEVICES.check(len(ids) if by_id else max(ids[0], 1), f"--attack {name}: devices")
    return Order(attack, len(ids), ids) if by_id else Order(attack, ids[0])


def _usual_strength(name: str) -> float | None:
    if name in ATTACKS:
        return ATTACKS[name]
    return 1.0 if kind_of(name) == "tamper" else None


def _strength(text: str, name: str, strength: str) -> float:
    if _usual_strength(name) is None:
        raise ConfigError(f"--attack {text!r}: {name} has no strength; write {name}:COUNT")
    try:
        value = float(strength)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ConfigError(f"--attack {text!r}: the strength {strength!r} is not a positive number")
    return value


def seat(orders: Sequence[Order], devices: int, *, prototypes: int = 1, seed: int = 0) -> dict[int, Attack]:
    """The attacks by device index; device i has prototype i mod `prototypes`.

    Attackers are evenly spaced, 10 of 30 at 2, 5, 8, ..., 29, those of the first order first, as in FedRAD. With
    several prototypes they are evenly spaced within each prototype, and the seed permutes the attacks: otherwise one
    prototype could get all attackers of a kind, or all attackers.
    """
    named = [(i, order.attack) for order in orders for i in order.ids]
    for i, attack in named:
        if i >= devices:
            raise ConfigError(f"--attack {attack.name}@{i}: there are devices 0 to {devices - 1}")
    if len({i for i, _ in named}) < len(named):
        raise ConfigError("--attack: a device is named twice; give each device one attack")
    counted = [order.attack for order in orders if not order.ids for _ in range(order.count)]
    taken = {i for i, _ in named}
    free = [i for first in range(prototypes) for i in range(first, devices, prototypes) if i not in taken]
    if len(counted) > len(free):
        raise ConfigError(f"--attack: {len(named) + len(counted)} attackers, but {devices} devices; give fewer")
    if prototypes > 1:
        rng = np.random.default_rng(derive_seed(seed, "attack"))
        counted = [counted[i] for i in rng.permutation(len(counted))]
    seats = [free[(n + 1) * len(free) // len(counted) - 1] for n in range(len(counted))]
    return dict(sorted([*named, *zip(seats, counted, strict=True)]))


def check_over_mqtt(orders: Sequence[Order]) -> None:
    """Reject attacks that need a modified agent: over MQTT only the labels can be changed."""
    for order in orders:
        if order.attack.tampers or order.attack.name == _OF_CLAIM:
            raise ConfigError(
                f"--attack {order.attack.name} requires --transport memory; agents over MQTT send what they trained, "
                f"and how much they have, so only {' and '.join(_OF_DATA)} can be had there"
            )


def _normal(w: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    import torch

    return torch.randn(w.shape, generator=generator)
