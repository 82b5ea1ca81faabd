"""Random generators of a simulation, each derived from the run's seed and its purpose.

A resumed run, another engine or another order of the devices therefore draws the same numbers.
"""

from __future__ import annotations

import numpy as np

from core.seeds import derive_seed
from models.seeding import torch_rng

__all__ = ["derive_seed", "numpy_rng", "torch_rng"]


def numpy_rng(seed: int, *purpose: object) -> np.random.Generator:
    """NumPy's generator for `purpose`."""
    return np.random.default_rng(derive_seed(seed, *purpose))
