"""Stored samples as tensors, without a copy."""

from __future__ import annotations

import warnings

import torch

from fleet.datasets.dataset import Array

__all__ = ["view_of"]


def view_of(array: Array) -> torch.Tensor:
    """A tensor on the memory of `array`, which may be read-only: write to neither."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch has no read-only tensors, and says so
        return torch.from_numpy(array)
