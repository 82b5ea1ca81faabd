"""Datasets by name or path, checked while they are read: see docs/data.md."""

from __future__ import annotations

from fleet.datasets.dataset import Dataset, hold_out
from fleet.datasets.registry import DATASETS, load

__all__ = ["DATASETS", "Dataset", "hold_out", "load"]
