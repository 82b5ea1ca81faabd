"""Datasets by name or path, checked while they are loaded: see docs/data.md."""

from __future__ import annotations

from fleet.data.dataset import Dataset, hold_out
from fleet.data.registry import DATASETS, load

__all__ = ["DATASETS", "Dataset", "hold_out", "load"]
