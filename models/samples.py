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
from models.npz import read_npz

__all__ = ["Samples", "count_labels", "load_inputs", "load_labels", "load_samples"]

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


def load_samples(path: Path) -> Samples:
    """All samples of the file."""
    arrays = _read(path, ("x", "y"), ("mean", "std"))
    y = _labels(path, arrays["y"])
    x = arrays["x"]
    if x.ndim < 2 or len(x) != len(y):
        raise DataError(f"{path}: x is {x.shape} for {len(y)} labels; give one input per label")
    return Samples(_inputs(path, x, arrays.get("mean"), arrays.get("std")), y)


def load_inputs(path: Path, *, labels: bool = False) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
    """The inputs and, if `labels`, the labels; otherwise a `y` in the file is not read."""
    arrays = _read(path, ("x", "y") if labels else ("x",), ("mean", "std"))
    x = arrays["x"]
    y = _labels(path, arrays["y"]) if labels else None
    if x.ndim < 2 or not len(x) or (y is not None and len(y) != len(x)):
        of = "" if y is None else f" for {len(y)} labels"
        raise DataError(f"{path}: x is {x.shape}{of}; give one or more inputs (N, ...)")
    return _inputs(path, x, arrays.get("mean"), arrays.get("std")), y


def count_labels(y: NDArray[np.int64]) -> tuple[int, ...]:
    """Number of samples per class, up to the last class that has any."""
    return tuple(int(n) for n in np.bincount(y))


def _read(path: Path, names: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, NDArray[Any]]:
    arrays = read_npz(path, (*names, *optional), how=HOW)
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


def _inputs(path: Path, x: NDArray[Any], mean: NDArray[Any] | None, std: NDArray[Any] | None) -> NDArray[Any]:
    if x.dtype == np.float32:
        if not np.isfinite(x).all():
            raise DataError(f"{path}: x holds NaN or infinity")
        return x
    if x.dtype.kind in "iu" and x.dtype != np.uint8:
        return x.astype(np.int64)
    if x.dtype != np.uint8:
        raise DataError(f"{path}: x is {x.dtype}; give float32, uint8 or token ids in int64")
    try:
        shape = (-1,) + (1,) * (x.ndim - 2)
        centre = np.asarray(0 if mean is None else mean, np.float32).reshape(shape)
        scale = np.float32(1) / np.asarray(255 if std is None else std, np.float32).reshape(shape)
        inputs: NDArray[Any] = (x.astype(np.float32) - centre) * scale
    except ValueError:
        raise DataError(f"{path}: mean and std do not fit x of {x.shape}; give one number per channel") from None
    if inputs.shape != x.shape or not np.isfinite(inputs).all():
        raise DataError(f"{path}: mean and std do not fit x of {x.shape}; give one number per channel, std not 0")
    return inputs
