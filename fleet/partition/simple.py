"""IID, quantity skew, Dirichlet by class, and class shards.

Each takes the labels and returns one array of indices per device. Every index is used once, and a device's indices are
in random order, so that reading them in sequence is an unbiased epoch.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from core.errors import ConfigError
from fleet.partition.common import (
    TRIES,
    Indices,
    Seed,
    check_alpha,
    check_devices,
    cut_points,
    generator,
    nothing_valid,
    of_class,
    shuffled,
    whole_counts,
)

__all__ = ["dirichlet", "iid", "iid_skew", "shards"]


def iid(labels: npt.NDArray[np.integer], devices: int, *, seed: Seed = 0) -> list[Indices]:
    """A random permutation cut into equal pieces; sizes differ by one at most."""
    check_devices(labels, devices)
    return np.array_split(generator(seed).permutation(len(labels)), devices)


def iid_skew(
    labels: npt.NDArray[np.integer], devices: int, *, alpha: float = 1.0, min_size: int = 1, seed: Seed = 0
) -> list[Indices]:
    """IID labels, unequal quantities: n_k = min_size + rest · q_k with q ~ Dir(α·1), rounded to sum to N."""
    check_devices(labels, devices)
    check_alpha(alpha)
    rest = len(labels) - min_size * devices
    if min_size < 0 or rest < 0:
        raise ConfigError(
            f"partition iid-skew: min_size {min_size} for {devices} devices of {len(labels)} samples in all"
        )
    rng = generator(seed)
    counts = min_size + whole_counts(rng.dirichlet(np.full(devices, alpha)), rest)
    return np.split(rng.permutation(len(labels)), np.cumsum(counts)[:-1])


def dirichlet(
    labels: npt.NDArray[np.integer],
    devices: int,
    *,
    alpha: float = 1.0,
    min_size: int = 2,
    tries: int = TRIES,
    seed: Seed = 0,
) -> list[Indices]:
    """Dirichlet by class (Hsu et al. 2019, arXiv:1909.06335, in the by-class form of Yurochkin et al. 2019).

        for each class c:  q_c ~ Dir(α·1_K);  device k gets the share q_{c,k} of the samples of class c

    Redrawn, at most `tries` times, until the smallest device has `min_size` samples.
    """
    check_devices(labels, devices)
    check_alpha(alpha)
    rng = generator(seed)
    classes = of_class(labels)
    sizes = np.array([len(members) for members in classes])
    for _ in range(tries):
        shares = rng.dirichlet(np.full(devices, alpha), size=len(classes))  # (C, K)
        cuts = [cut_points(q, n) for q, n in zip(shares, sizes, strict=True)]
        counts = [np.diff(cut, prepend=0, append=n) for cut, n in zip(cuts, sizes, strict=True)]
        if np.sum(counts, axis=0).min() >= min_size:
            break
    else:
        raise nothing_valid("dirichlet", tries, devices, alpha, min_size)
    pieces = [np.split(rng.permutation(members), cut) for members, cut in zip(classes, cuts, strict=True)]
    return shuffled(list(zip(*pieces, strict=True)), rng)


def shards(
    labels: npt.NDArray[np.integer], devices: int, *, classes_per_device: int = 2, seed: Seed = 0
) -> list[Indices]:
    """McMahan et al. 2017: sort by label, cut into K·s equal shards, assign s of them to each device.

    A shard crosses a class boundary where the class sizes do not divide evenly, so a device may have up to one class
    per shard more than `classes_per_device`.
    """
    check_devices(labels, devices)
    pieces = devices * classes_per_device
    if classes_per_device < 1 or pieces > len(labels):
        raise ConfigError(
            f"partition shards: {classes_per_device} classes per device; give 1 to {len(labels) // devices} "
            f"for {devices} devices of {len(labels)} samples in all"
        )
    rng = generator(seed)
    mixed = rng.permutation(len(labels))
    cut = np.array_split(mixed[np.argsort(labels[mixed], kind="stable")], pieces)
    dealt = rng.permutation(pieces).reshape(devices, classes_per_device)
    return shuffled([[cut[shard] for shard in hand] for hand in dealt], rng)
