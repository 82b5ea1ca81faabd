"""Datasets by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from fleet.datasets.dataset import Dataset
from fleet.datasets.digits import digits
from wire.errors import ConfigError, did_you_mean

__all__ = ["DATASETS", "load"]

DATASETS: Mapping[str, Callable[[], Dataset]] = MappingProxyType({"digits": digits})


def load(name_or_path: str | Path) -> Dataset:
    """The dataset of this name."""
    name = str(name_or_path)
    if name not in DATASETS:
        raise ConfigError(f"unknown dataset {name!r}; known: {' '.join(DATASETS)}{did_you_mean(name, DATASETS)}")
    return DATASETS[name]()
