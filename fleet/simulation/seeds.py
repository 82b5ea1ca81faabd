"""Randomness as a value: every draw of a simulation comes from the run's seed and what it is for.

So a resumed run, another engine or another order of the devices draws the same numbers.
"""

from __future__ import annotations

import numpy as np

from core.seeds import derive_seed
from models.seeding import torch_rng

__all__ = ["derive_seed", "numpy_rng", "torch_rng"]


def numpy_rng(seed: int, *purpose: object) -> np.random.Generator:
    """NumPy's generator for `purpose`."""
    return np.random.default_rng(derive_seed(seed, *purpose))
