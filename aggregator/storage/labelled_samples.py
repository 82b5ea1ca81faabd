"""The labelled samples that fused models are scored on; the file is described in models/samples.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import DataError
from models.samples import load_samples
from wire.messages import Task

__all__ = ["load_validation"]


def load_validation(
    path: Path, input_shape: tuple[int, ...], classes: int, task: Task | None = None
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Inputs and labels; `DataError` says what does not fit the task."""
    samples = load_samples(path, task)
    if samples.x.shape[1:] != input_shape:
        raise DataError(f"{path}: x is {samples.x.shape}, expected (N, {', '.join(map(str, input_shape))})")
    if samples.y.max() >= classes:
        raise DataError(f"{path}: y must be whole numbers from 0 to {classes - 1}")
    return samples.x, samples.y
