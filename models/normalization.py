"""How raw values become a model's inputs, x = (raw - mean) / std: as the fleet's task says, or as samples are stored.

Imports no torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import numpy as np

from core.errors import DataError
from models.npz import read_npz, stored_dtype
from wire.messages import Task

__all__ = ["Normalization", "normalization_of"]

#: Mean and std of raw values: one number, or one per channel.
Normalization: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]
BYTES: Normalization = ((0.0,), (255.0,))  # of images without mean and std, as in models/samples.py


def normalization_of(task: Task | None, samples: Path | None, input_shape: tuple[int, ...]) -> Normalization | None:
    """Mean and std of the task; of an .npz of bytes; of bytes, for a folder of pictures. None: none is known."""
    if task is not None and task.mean:
        return task.mean, task.std
    if samples is not None and samples.suffix == ".npz":
        try:
            return _stored(samples)
        except DataError:  # a board that waits for its samples takes offered models all the same
            return None
    pictures = samples is not None and samples.is_dir() and len(input_shape) == 3
    return BYTES if pictures or (task is not None and task.kind == "image") else None


def _stored(path: Path) -> Normalization | None:
    """Mean and std of an .npz of bytes."""
    if stored_dtype(path, "x") != np.uint8:
        return None
    arrays = read_npz(path, ("mean", "std"))
    mean, std = (
        tuple(float(number) for number in np.atleast_1d(arrays[name]).reshape(-1)) if name in arrays else default
        for name, default in zip(("mean", "std"), BYTES, strict=True)
    )
    return mean, std
