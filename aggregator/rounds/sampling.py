"""Whom a round asks: drawn from the seed and the round's number, so that a restart or a simulation draws the same.

The only sampler of devices: the round engine (and with it rounds in virtual time) calls `sample`, the simulated fleet
too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from core.seeds import derive_seed

__all__ = ["draw", "sample", "share_of"]

T = TypeVar("T")


def share_of(count: int, fraction: float) -> int:
    """How many of `count` devices a round asks: max(C * K, 1), McMahan et al. 2017, Algorithm 1.

    >>> share_of(10, 0.34), share_of(10, 0.01)
    (3, 1)
    """
    return max(round(fraction * count), 1)


def draw(members: Sequence[T], count: int, seed: int, *purpose: object) -> list[T]:
    """`count` of the members, uniformly and without replacement, in their order; by the seed and what it is for."""
    rng = np.random.default_rng(derive_seed(seed, *purpose))
    return [members[i] for i in sorted(rng.choice(len(members), count, replace=False))]


def sample(
    devices: Mapping[str, str], seed: int, number: int, *, fraction: float = 1.0, at_least: int = 1
) -> dict[str, str]:
    """`share_of` each prototype's devices, uniformly.

    `devices` maps ids to prototypes. If that is fewer than `at_least` in all, others are added, in an order that the
    seed and the round decide.
    """
    chosen: dict[str, str] = {}
    for prototype in sorted(set(devices.values())):
        members = sorted(device for device, name in devices.items() if name == prototype)
        drawn = draw(members, share_of(len(members), fraction), seed, "invite", number, prototype)
        chosen |= dict.fromkeys(drawn, prototype)
    rest = sorted(devices.keys() - chosen.keys(), key=lambda device: derive_seed(seed, "add", number, device))
    chosen |= {device: devices[device] for device in rest[: max(0, at_least - len(chosen))]}
    return dict(sorted(chosen.items()))
