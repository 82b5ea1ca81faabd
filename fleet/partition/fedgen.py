"""FedGen's partition (Zhu et al. 2021, arXiv:2105.10056), identical to that of the authors' script.

All published tables use one partition, with Python's and NumPy's generators seeded with 42. Both streams are frozen
(`random.Random.shuffle`, `np.random.RandomState`), so the same seed still gives exactly their split.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from core.errors import ConfigError
from fleet.partition.common import TRIES, Indices, check_alpha, check_devices, nothing_valid

__all__ = ["fedgen", "fedgen_test"]


def fedgen(
    labels: npt.NDArray[np.integer],
    devices: int = 20,
    *,
    alpha: float = 0.1,
    ratio: float = 0.5,
    min_size: int = 10,
    tries: int = TRIES,
    seed: int = 42,
) -> list[Indices]:
    """Dirichlet by class on a part of the data, with a cap on every device.

        cap = ratio · N / K;   of each class keep min(cap, ⌊ratio · n_c⌋) samples, chosen at random;
        q ~ Dir(α·1_K), zero for devices that already hold cap or more, renormalised; cut at ⌊cumulative q · kept⌋

    and the whole draw is repeated until the smallest device has `min_size`. MNIST at ratio 0.5: cap 1500, so 1500 of
    each class and 15,000 images in all. A device's samples are ordered by class: the paper's loader did not shuffle
    them, so shuffle in training (or do not, to reproduce the paper).
    """
    check_devices(labels, devices)
    check_alpha(alpha)
    if not 0 < ratio <= 1:
        raise ConfigError(f"partition fedgen: ratio {ratio}; give a number above 0 and at most 1")
    order = [int(label) for label in np.unique(labels)]
    random.Random(seed).shuffle(order)
    members = {label: np.flatnonzero(labels == label) for label in order}
    rng = np.random.RandomState(seed)
    for _ in range(tries):
        pieces = _draw([members[label] for label in order], devices, alpha, ratio, ratio * len(labels) / devices, rng)
        if pieces is not None:
            parts = [np.concatenate(of_device) for of_device in zip(*pieces, strict=True)]
            if min(len(part) for part in parts) >= min_size:
                return parts
    raise nothing_valid("fedgen", tries, devices, alpha, min_size)


def _draw(
    members: Sequence[Indices], devices: int, alpha: float, ratio: float, cap: float, rng: np.random.RandomState
) -> list[list[Indices]] | None:
    """One draw, as (class, device) pieces; None if the shares underflow to zero (tiny α)."""
    held = np.zeros(devices, np.int64)
    pieces = []
    for of_label in members:
        order = np.arange(len(of_label))
        rng.shuffle(order)
        if ratio < 1:
            order = order[: int(min(cap, int(ratio * len(of_label))))]
        with np.errstate(invalid="ignore"):
            shares = rng.dirichlet(np.repeat(alpha, devices)) * (held < cap)
        if not shares.sum() > 0:
            return None
        cuts = (np.cumsum(shares / shares.sum()) * len(order)).astype(int)[:-1]
        split = np.split(of_label[order], cuts)
        held += [len(piece) for piece in split]
        pieces.append(split)
    return pieces


def fedgen_test(
    parts: Sequence[Indices], labels: npt.NDArray[np.integer], test_labels: npt.NDArray[np.integer]
) -> list[Indices]:
    """Each device's private slice of the test set: ⌊n_test(c)/K⌋ samples of every class c that it trains on.

    Slices are disjoint and in file order. FedGen's accuracies are measured on these, never on unseen labels.
    """
    of_test = {int(label): np.flatnonzero(test_labels == label) for label in np.unique(test_labels)}
    used = dict.fromkeys(of_test, 0)
    slices = []
    for part in parts:
        taken: list[Indices] = []
        for label in (int(c) for c in np.unique(labels[part]) if int(c) in of_test):
            count = len(of_test[label]) // len(parts)
            taken.append(of_test[label][used[label] : used[label] + count])
            used[label] += count
        slices.append(np.concatenate(taken) if taken else np.empty(0, np.int64))
    return slices
