"""Whom a round asks: drawn from the seed and the round's number, so that a restart or a simulation draws the same."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from core.seeds import derive_seed

__all__ = ["sample"]


def sample(
    devices: Mapping[str, str], seed: int, number: int, *, fraction: float = 1.0, at_least: int = 1
) -> dict[str, str]:
    """Of each prototype's K devices max(C * K, 1), uniformly: McMahan et al. 2017, Algorithm 1.

    `devices` maps ids to prototypes. If that is fewer than `at_least` in all, others are added, in an order that the
    seed and the round decide.
    """
    chosen: dict[str, str] = {}
    for prototype in sorted(set(devices.values())):
        members = sorted(device for device, name in devices.items() if name == prototype)
        count = max(round(fraction * len(members)), 1)
        rng = np.random.default_rng(derive_seed(seed, "invite", number, prototype))
        chosen |= {members[i]: prototype for i in rng.choice(len(members), count, replace=False)}
    rest = sorted(devices.keys() - chosen.keys(), key=lambda device: derive_seed(seed, "add", number, device))
    chosen |= {device: devices[device] for device in rest[: max(0, at_least - len(chosen))]}
    return dict(sorted(chosen.items()))
