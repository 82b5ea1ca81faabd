"""Labelled samples on disk: an .npz with `x` and `y`. NumPy only.

y      whole numbers 0 .. C-1, one per sample
x      float32, used as stored; or uint8, normalized to (x - mean) / std by the arrays `mean` and `std` of the file (one
       number, or one per channel; without them, x / 255); or int64 token ids

Used for a device's samples, the aggregator's validation set and, without y, its unlabeled samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import DataError
from models.normalization import BYTES, normalize
from models.npz import read_npz
from wire.messages import Task

__all__ = ["Samples", "as_inputs", "count_labels", "load_inputs", "load_labels", "load_raw", "load_samples"]

MAX_CLASSES = 10_000
HOW = "with numpy.savez(path, x=x, y=y)"


@dataclass(frozen=True, slots=True)
class Samples:
    """Model inputs and labels."""

    x: NDArray[Any]  # float32 (N, ...), or int64 (N, L)
    y: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.y)


def load_labels(path: Path) -> NDArray[np.int64]:
    """Only the labels; the inputs are not read."""
    return _labels(path, _read(path, ("y",))["y"])


def load_samples(path: Path, task: Task | None = None) -> Samples:
    """All samples of the file; of bytes, mean and std of the `task` come before those of the file."""
    x, y, mean, std = load_raw(path)
    return Samples(as_inputs(path, x, *_told(task, mean, std)), y)


def load_raw(
    path: Path, *, limit: int | None = None
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[Any] | None, NDArray[Any] | None]:
    """x as stored, y, and mean and std of the file if it has them."""
    arrays = _read(path, ("x", "y"), ("mean", "std"), limit)
    y = _labels(path, arrays["y"])
    x = arrays["x"]
    if x.ndim < 2 or len(x) != len(y):
        raise DataError(f"{path}: x is {x.shape} for {len(y)} labels; give one input per label")
    return x, y, arrays.get("mean"), arrays.get("std")


def load_inputs(
    path: Path, *, labels: bool = False, task: Task | None = None
) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
    """The inputs and, if `labels`, the labels; otherwise a `y` in the file is not read. `task` as in `load_samples`."""
    arrays = _read(path, ("x", "y") if labels else ("x",), ("mean", "std"))
    x = arrays["x"]
    y = _labels(path, arrays["y"]) if labels else None
    if x.ndim < 2 or not len(x) or (y is not None and len(y) != len(x)):
        of = "" if y is None else f" for {len(y)} labels"
        raise DataError(f"{path}: x is {x.shape}{of}; give one or more inputs (N, ...)")
    return as_inputs(path, x, *_told(task, arrays.get("mean"), arrays.get("std"))), y


def _told(
    task: Task | None, mean: NDArray[Any] | None, std: NDArray[Any] | None
) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    if task is None or not task.mean:
        return mean, std
    return np.array(task.mean), np.array(task.std)


def count_labels(y: NDArray[np.int64]) -> tuple[int, ...]:
    """Number of samples per class, up to the last class that has any."""
    return tuple(int(n) for n in np.bincount(y))


def _read(
    path: Path, names: tuple[str, ...], optional: tuple[str, ...] = (), limit: int | None = None
) -> dict[str, NDArray[Any]]:
    arrays = read_npz(path, (*names, *optional), limit=limit, how=HOW)
    missing = [name for name in names if name not in arrays]
    if missing:
        raise DataError(f"{path}: no array {missing[0]!r}; save it again {HOW}")
    return arrays


def _labels(path: Path, y: NDArray[Any]) -> NDArray[np.int64]:
    if y.ndim != 1 or y.dtype.kind not in "iu" or not len(y):
        raise DataError(f"{path}: y is {y.dtype} {y.shape}; give one whole number per sample")
    if y.min() < 0 or y.max() >= MAX_CLASSES:
        raise DataError(f"{path}: labels from {y.min()} to {y.max()}; count the classes from 0 up")
    return y.astype(np.int64)


def as_inputs(path: Path | str, x: NDArray[Any], mean: NDArray[Any] | None, std: NDArray[Any] | None) -> NDArray[Any]:
    """x as a model takes it; `path` is what messages name."""
    if x.dtype == np.float32:
        if not np.isfinite(x).all():
            raise DataError(f"{path}: x holds NaN or infinity")
        return x
    if x.dtype.kind in "iu" and x.dtype != np.uint8:
        return x.astype(np.int64)
    if x.dtype != np.uint8:
        raise DataError(f"{path}: x is {x.dtype}; give float32, uint8 or token ids in int64")
    try:
        inputs = normalize(x, BYTES[0] if mean is None else mean, BYTES[1] if std is None else std)
    except ValueError:
        raise DataError(f"{path}: mean and std do not fit x of {x.shape}; give one number per channel") from None
    if inputs.shape != x.shape or not np.isfinite(inputs).all():
        raise DataError(f"{path}: mean and std do not fit x of {x.shape}; give one number per channel, std not 0")
    return inputs
