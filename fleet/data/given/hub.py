"""Datasets of Hugging Face by name: `hf:ylecun/mnist`, or `hf:glue/sst2` with a configuration as a third part."""

from __future__ import annotations

import importlib
from typing import Any

from core.errors import ConfigError, DataError
from fleet.data.dataset import Dataset
from fleet.data.given.own import own_data

__all__ = ["HUB", "hub_dataset"]

HUB = "hf:"


def hub_dataset(name: str) -> Dataset:
    """The dataset called `owner/name` or `owner/name/configuration`, from the cache of `datasets` or the network."""
    datasets = _library()
    parts = name.split("/")
    try:
        loaded = datasets.load_dataset("/".join(parts[:2]), *parts[2:3])
    except Exception as error:  # the library raises its own errors, and those of the network and of files
        reason = " ".join(str(error).split())[:300]
        raise DataError(
            f"{HUB}{name}: cannot be loaded ({type(error).__name__}: {reason}); check name and network"
        ) from None
    return own_data(f"{HUB}{name}", loaded)


def _library() -> Any:
    try:
        return importlib.import_module("datasets")
    except ImportError:
        raise ConfigError("datasets of Hugging Face need a library: pip install 'edgestill[hf]'") from None
