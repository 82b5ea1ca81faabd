"""FedDF's partition (Lin et al. 2020, arXiv:2006.07242), as in the authors' code; the random stream is ours."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

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
)

__all__ = ["feddf", "feddf_validation"]

_GROUP = 10  # devices that share one Dirichlet draw


def feddf_validation(samples: int, share: float = 0.1) -> Indices:
    """The aggregator's validation set: the last tenth of the training file, not a random one."""
    return np.arange(int((1 - share) * samples + 0.5), samples)


def feddf(
    labels: npt.NDArray[np.integer],
    devices: int,
    *,
    alpha: float = 1.0,
    validation: float = 0.1,
    equal: bool = True,
    tries: int = TRIES,
    seed: Seed = 0,
) -> list[Indices]:
    """Dirichlet by class within groups of ten devices, then cut again at equal lengths.

    The samples before `feddf_validation` are shuffled and dealt to groups in proportion to their devices (21 devices:
    10 + 10 + 1, so the last one is IID). In a group, per class: q ~ Dir(α·1), zero for devices that hold the group's
    average or more, renormalised; redrawn until the smallest has half the average. With `equal` the devices' lists are
    joined and cut at equal lengths, as the authors do, so the heterogeneity is milder than α suggests.
    """
    usable = len(labels) - len(feddf_validation(len(labels), validation))
    check_devices(labels[:usable], devices)
    check_alpha(alpha)
    rng = generator(seed)
    sizes = [min(_GROUP, devices - start) for start in range(0, devices, _GROUP)]
    ends = [usable * done // devices for done in np.cumsum(sizes)[:-1]]
    parts: list[Indices] = []
    for group, size in zip(np.split(rng.permutation(usable), ends), sizes, strict=True):
        drawn = _group(labels[group], size, alpha, tries, rng)
        parts += [group[part] for part in drawn]
    if equal:
        parts = np.array_split(np.concatenate(parts), devices)
    return shuffled([[part] for part in parts], rng)


def _group(
    labels: npt.NDArray[np.integer], devices: int, alpha: float, tries: int, rng: np.random.Generator
) -> list[Indices]:
    """One draw for a group: positions within the group, per device, class by class."""
    average = len(labels) / devices
    classes = of_class(labels)
    for _ in range(tries):
        held = np.zeros(devices, np.int64)
        pieces = []
        for members in classes:
            shares = rng.dirichlet(np.full(devices, alpha)) * (held < average)
            if not shares.sum() > 0:
                break
            split = np.split(members, cut_points(shares / shares.sum(), len(members)))
            held += [len(piece) for piece in split]
            pieces.append(split)
        if len(pieces) == len(classes) and held.min() >= 0.5 * average:
            return [np.concatenate(of_device) for of_device in zip(*pieces, strict=True)]
    raise nothing_valid("feddf", tries, devices, alpha, 0.5 * average)
