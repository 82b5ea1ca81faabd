"""The samples that all devices share, as stored; each mini-batch is converted into a model's input on access.

Devices therefore copy nothing before they train, and images are read as bytes.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from fleet.data import Dataset
from fleet.data.dataset import Array

__all__ = ["Shelf", "view_of"]


@dataclass(frozen=True, slots=True)
class Shelf:
    """Samples x (N, F) as stored; a model's input is (x - mean) * scale, if normalised."""

    x: Tensor
    mean: Tensor | None = None  # (F,)
    scale: Tensor | None = None

    @classmethod
    def of(cls, dataset: Dataset) -> Shelf:
        """The training set with flattened samples."""
        mean, scale = (None if one is None else torch.from_numpy(one) for one in dataset.normalisation())
        return cls(view_of(dataset.x_train).flatten(1), mean, scale)

    def take(self, rows: Tensor, out: Tensor) -> None:
        """Write the samples `rows` into `out` as float32 model inputs."""
        if self.x.dtype == out.dtype and out.is_contiguous():
            torch.index_select(self.x, 0, rows, out=out.view(len(rows), -1))
        else:
            out.copy_(self.x.index_select(0, rows).view(out.shape))
        if self.mean is not None:
            out.sub_(self.mean)
        if self.scale is not None:
            out.mul_(self.scale)


def view_of(array: Array) -> Tensor:
    """A tensor that shares the memory of `array`, which may be read-only: do not write to it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch has no read-only tensors and warns
        return torch.from_numpy(array)
