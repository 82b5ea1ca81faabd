"""The result of every loader: samples as stored, and their conversion into a model's input.

Images stay uint8 in (N, C, H, W), a quarter of their float32 size, so that thousands of simulated devices can share one
array; `Dataset.inputs` normalises only the samples of a batch:

    x_norm = (x - mean) / std        per channel or feature, in the units of the stored array

Text is int64 token ids (N, L), 0 is padding; numeric features are float32 (N, F).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from core.errors import DataError

__all__ = ["Array", "Dataset", "Kind", "Labels", "empty_like", "hold_out"]

Array = npt.NDArray[Any]
Labels = npt.NDArray[np.int64]
Kind = Literal["image", "text", "features"]

AT_ONCE = 1024  # samples checked at once
_DTYPES: dict[str, tuple[str, ...]] = {"image": ("uint8", "float32"), "text": ("int64",), "features": ("float32",)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dataset:
    """Labelled samples in a training and a test part; the test part may be empty (`hold_out` then makes one).

    Shapes, dtypes, label range and finiteness are checked on construction, and the arrays are read-only, so every
    instance is consistent.
    """

    name: str
    kind: Kind
    x_train: Array  # (N, *input_shape)
    y_train: Labels  # (N,), 0 .. classes - 1
    x_test: Array
    y_test: Labels
    class_names: tuple[str, ...]
    mean: tuple[float, ...] = (0.0,)  # one, or one per channel or feature; in stored units
    std: tuple[float, ...] = (1.0,)
    vocab: int | None = None  # text only: token ids are 0 .. vocab - 1
    variant: str = "full"  # or "subset": the variant that is on disk

    def __post_init__(self) -> None:
        for part, x, y in (("train", self.x_train, self.y_train), ("test", self.x_test, self.y_test)):
            self._check_part(part, x, y)
            x.setflags(write=False)
            y.setflags(write=False)
        if not len(self.y_train):
            raise DataError(f"{self.name}: no training samples")
        if self.x_test.shape[1:] != self.x_train.shape[1:]:
            raise DataError(
                f"{self.name}: train samples are {self.x_train.shape[1:]}, test samples {self.x_test.shape[1:]}; "
                "both parts need one shape"
            )
        if self.classes < 2:
            raise DataError(f"{self.name}: {self.classes} class; a classifier needs two or more")

    def _check_part(self, part: str, x: Array, y: Labels) -> None:
        if len(x) != len(y):
            raise DataError(f"{self.name}: {len(x)} {part} samples but {len(y)} labels; both need the same count")
        if str(x.dtype) not in _DTYPES[self.kind]:
            raise DataError(f"{self.name}: {part} samples are {x.dtype}, expected {' or '.join(_DTYPES[self.kind])}")
        if y.ndim != 1 or y.dtype != np.int64:
            raise DataError(f"{self.name}: {part} labels are {y.dtype} {y.shape}, expected int64 (N,)")
        if len(y) and not (y.min() >= 0 and y.max() < self.classes):
            raise DataError(
                f"{self.name}: {part} labels run from {y.min()} to {y.max()}, expected 0 to {self.classes - 1}"
            )
        if x.dtype == np.float32 and (row := _not_finite(x)) is not None:
            raise DataError(f"{self.name}: {part} sample {row} holds NaN or infinity; remove or replace it")
        if self.vocab is not None and x.size and not (x.min() >= 0 and x.max() < self.vocab):
            raise DataError(f"{self.name}: {part} token ids leave 0 .. {self.vocab - 1}")

    @property
    def classes(self) -> int:
        """C, the number of classes."""
        return len(self.class_names)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one sample: (C, H, W), (L,) or (F,)."""
        return tuple(self.x_train.shape[1:])

    def inputs(self, x: Array) -> Array:
        """A model's input for stored samples, always a new array: normalised float32, or token ids."""
        return self._prepared(x.copy() if self.kind == "text" else x.astype(np.float32))

    def train_inputs(self, rows: Labels) -> Array:
        """A model's input for these rows of the training set."""
        x = self.x_train[rows]  # a copy
        return self._prepared(x if self.kind == "text" else x.astype(np.float32, copy=False))

    def test_inputs(self) -> Array:
        """A model's input for the whole test part: the stored array, read-only, if it needs no conversion."""
        stored = self.kind != "text" and self.x_test.dtype == np.float32
        plain = stored and all(one is None for one in self.normalisation())
        return self.x_test if plain else self.inputs(self.x_test)

    def normalisation(self) -> tuple[Array | None, Array | None]:
        """Offset to subtract from a flat sample and factor to multiply it with; None: no normalisation is needed."""
        shape = (-1, 1, 1) if self.kind == "image" else (-1,)
        mean, scale = np.empty((2, *self.input_shape), np.float32)
        mean[...] = np.asarray(self.mean, np.float32).reshape(shape)
        scale[...] = np.float32(1) / np.asarray(self.std, np.float32).reshape(shape)
        return mean.reshape(-1) if mean.any() else None, scale.reshape(-1) if (scale != 1).any() else None

    def _prepared(self, out: Array) -> Array:
        """Normalised, in place."""
        if self.kind == "text":
            return out
        mean, scale = self.normalisation()
        flat = out.reshape(len(out), math.prod(self.input_shape))
        if mean is not None:
            flat -= mean
        if scale is not None:
            flat *= scale
        return out


def _not_finite(x: Array) -> int | None:
    """The first sample with NaN or infinity; searched in pieces to avoid a mask of the whole array."""
    for start in range(0, len(x), AT_ONCE):
        finite = np.isfinite(x[start : start + AT_ONCE])
        if not finite.all():
            return start + int(np.argmin(finite.reshape(len(finite), -1).all(axis=1)))
    return None


def empty_like(x: Array) -> tuple[Array, Labels]:
    """An empty test part."""
    return np.empty((0, *x.shape[1:]), x.dtype), np.empty(0, np.int64)


def hold_out(dataset: Dataset, fraction: float = 0.2, *, seed: int = 0) -> Dataset:
    """The same dataset with `fraction` of each class moved from the training to the test part; deterministic by seed.

    Both parts keep the stored order. A class of a single sample stays in the training part.
    """
    rng = np.random.default_rng(seed)
    test = np.zeros(len(dataset.y_train), bool)
    for label in range(dataset.classes):
        of_class = rng.permutation(np.flatnonzero(dataset.y_train == label))
        taken = min(round(fraction * len(of_class)), len(of_class) - 1)
        test[of_class[: max(taken, 0)]] = True
    return replace(
        dataset,
        x_train=dataset.x_train[~test],
        y_train=dataset.y_train[~test],
        x_test=np.concatenate([dataset.x_test, dataset.x_train[test]]),
        y_test=np.concatenate([dataset.y_test, dataset.y_train[test]]),
    )
