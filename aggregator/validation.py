"""The labelled samples that fused models are scored on: an .npz file with `x` and `y`.

`x` (N, *input_shape) is float32 as the models take it, int64 token ids, or uint8 pixels with `mean` and `std` (one
number, or one per channel), which become (x - mean) * (1 / std). `y` (N,) holds the classes, counted from 0.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wire.errors import DataError

__all__ = ["load_validation"]


def load_validation(path: Path, input_shape: tuple[int, ...], classes: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Inputs and labels; `DataError` says what does not fit the task."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not a readable .npz file ({error}); give one with x and y") from error
    for name in ("x", "y"):
        if name not in arrays:
            raise DataError(f"{path}: has no array {name!r}; it needs x and y")
    x, y = arrays["x"], arrays["y"]
    if x.shape[1:] != input_shape or len(x) != len(y) or not len(x):
        raise DataError(
            f"{path}: x is {x.shape} with {len(y)} labels, expected (N, {', '.join(map(str, input_shape))})"
        )
    if y.ndim != 1 or y.dtype.kind not in "iu" or not 0 <= y.min() <= y.max() < classes:
        raise DataError(f"{path}: y must be whole numbers from 0 to {classes - 1}")
    return _inputs(x, arrays, path), y.astype(np.int64)


def _inputs(x: NDArray[Any], arrays: dict[str, NDArray[Any]], path: Path) -> NDArray[Any]:
    if x.dtype in (np.float32, np.int64):
        return x
    if x.dtype != np.uint8 or "mean" not in arrays or "std" not in arrays:
        raise DataError(f"{path}: x is {x.dtype}; give float32, int64 token ids, or uint8 with mean and std")
    shape = (-1, *[1] * (x.ndim - 2))
    mean = arrays["mean"].astype(np.float32).reshape(shape)
    scale = np.float32(1) / arrays["std"].astype(np.float32).reshape(shape)
    inputs: NDArray[Any] = (x.astype(np.float32) - mean) * scale
    return inputs
