"""FedRAD's partitions (Sturluson et al. 2021), as in the authors' code; the random stream is ours.

The server's set is drawn first, from the whole training file, and only if the aggregator needs data:

    server, rest = fedrad_server(len(labels), seed=0)
    parts = [rest[part] for part in fedrad(labels[rest], 30, alpha=0.5)]
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fleet.partition.common import Indices, Seed, check_alpha, check_devices, generator, of_class, shuffled

__all__ = ["SIZES", "fedrad", "fedrad_iid", "fedrad_server"]

SIZES = (0.1, 0.15, 0.2, 0.2, 0.1, 0.15, 0.1, 0.15, 0.2, 0.2)  # relative, repeated every ten devices


def fedrad_server(samples: int, *, probability: float = 1 / 6, seed: Seed = 0) -> tuple[Indices, Indices]:
    """The server's set and the devices' rest: each training sample goes to the server with this probability."""
    to_server = generator(seed).random(samples) < probability
    return np.flatnonzero(to_server), np.flatnonzero(~to_server)


def fedrad_iid(labels: npt.NDArray[np.integer], devices: int = 30, *, seed: Seed = 0) -> list[Indices]:
    """IID in three sizes, n_k = ⌊N · s_k / Σs⌋ with s of `SIZES`; the remainder goes to the last device.

    60,000 samples on 30 devices: 1290 (9 devices), 1935 (9) and 2580 (12).
    """
    check_devices(labels, devices)
    sizes = np.resize(np.array(SIZES), devices)
    # the epsilon keeps an integer product from being floored to the next lower integer
    counts = np.floor(len(labels) * sizes / sizes.sum() + 1e-9).astype(np.int64)
    return np.split(generator(seed).permutation(len(labels)), np.cumsum(counts)[:-1])


def fedrad(labels: npt.NDArray[np.integer], devices: int = 30, *, alpha: float = 0.5, seed: Seed = 0) -> list[Indices]:
    """One Dir(α·1_K) per class, floored counts, the remainder of every class to the last device, no minimum size.

    A device may be empty, as in the authors' code.
    """
    check_devices(labels, devices)
    check_alpha(alpha)
    rng = generator(seed)
    pieces = []
    for members in of_class(labels):
        counts = np.floor(rng.dirichlet(np.full(devices, alpha)) * len(members)).astype(np.int64)
        pieces.append(np.split(rng.permutation(members), np.cumsum(counts)[:-1]))
    return shuffled(list(zip(*pieces, strict=True)), rng)
