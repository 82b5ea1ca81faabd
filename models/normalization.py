"""How raw values become a model's inputs, x = (raw - mean) / std: as the fleet's task says, or as samples are stored.

Imports no torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import DataError
from models.npz import read_npz, stored_dtype
from wire.messages import Task

__all__ = ["BYTES", "Normalization", "normalization_of", "normalize", "told_by"]

#: Mean and std of raw values: one number, or one per channel.
Normalization: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]
BYTES: Normalization = ((0.0,), (255.0,))  # of images without mean and std


def normalize(x: NDArray[Any], mean: ArrayLike, std: ArrayLike, *, axis: int = 1) -> NDArray[np.float32]:
    """(x - mean) / std, computed in float32 as (x - mean) * (1 / std), as the graphs of raw inputs compute it too.

    One number, or one per channel, which `axis` counts: 1 of a batch, 0 of one sample. ValueError for other numbers.
    """
    shape = (-1,) + (1,) * (x.ndim - 1 - axis)
    scale = np.float32(1) / np.asarray(std, np.float32).reshape(shape)
    inputs: NDArray[np.float32] = (x.astype(np.float32) - np.asarray(mean, np.float32).reshape(shape)) * scale
    return inputs


def told_by(task: Task | None, *, of_bytes: bool) -> Normalization | None:
    """Mean and std of stored samples: the task's; those of bytes without one; None: samples are used as they are."""
    if task is not None and task.mean:
        return task.mean, task.std
    return BYTES if of_bytes else None


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
