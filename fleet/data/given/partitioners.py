"""Partitioners in the manner of flwr-datasets: whatever has `num_partitions` and `load_partition(index)`.

As a dataset, a partitioner brings its samples and which device has which. As a partition alone it splits a table of the
labels and row numbers of any dataset, which needs the library `datasets`.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from core.errors import ConfigError, DataError
from fleet.data.dataset import Array
from fleet.data.given.samples import Samples, samples_of

__all__ = ["all_partitions", "is_partitioner", "partition_of"]

ROW = "row"


def is_partitioner(thing: Any) -> bool:
    """Whether it has partitions to load; a class has none."""
    return hasattr(thing, "load_partition") and not isinstance(thing, type) and _inner(thing) is not None


def _inner(thing: Any) -> Any:
    """What knows the number of partitions: the partitioner, or that of a federated dataset's training part."""
    if hasattr(thing, "num_partitions"):
        return thing
    return getattr(thing, "partitioners", {}).get("train")


def _partitions(name: str, thing: Any) -> list[Samples]:
    count = int(_inner(thing).num_partitions)
    return [samples_of(name, thing.load_partition(index)) for index in range(count)]


def all_partitions(name: str, thing: Any) -> tuple[Samples, Samples | None]:
    """The samples of all partitions, one after another, and the test part if it has one."""
    parts = _partitions(name, thing)
    if not parts:
        raise DataError(f"{name}: has no partitions")
    train = parts[0]._replace(x=np.concatenate([p.x for p in parts]), y=np.concatenate([p.y for p in parts]))
    test = samples_of(name, thing.load_split("test")) if hasattr(thing, "load_split") else None
    return train, test


def partition_of(thing: Any) -> Callable[..., list[Array]]:
    """The partition of a partitioner, named after its class: of its own samples, or of any labels if it has none."""
    inner = _inner(thing)
    has_samples = inner is not thing or getattr(thing, "dataset", None) is not None or not hasattr(thing, "dataset")
    split = _of_its_own(thing) if has_samples else _of_labels(thing)
    split.__name__ = type(inner).__name__
    return split


def _of_its_own(thing: Any) -> Callable[..., list[Array]]:
    sizes = [len(part.y) for part in _partitions("partition", thing)]

    def own(labels: Array, devices: int) -> list[Array]:
        if len(labels) != sum(sizes):
            raise ConfigError(
                f"its devices have {sum(sizes)} samples, but {len(labels)} are left for them; give validation_size=0 "
                "and source='none', or another dataset as source"
            )
        edges = np.cumsum([0, *sizes])
        return [np.arange(a, b) for a, b in pairwise(edges.tolist())]

    return own


def _of_labels(thing: Any) -> Callable[..., list[Array]]:
    def own(labels: Array, devices: int) -> list[Array]:
        if int(thing.num_partitions) != devices:
            raise ConfigError(f"it has {thing.num_partitions} partitions for {devices} devices; give devices as many")
        try:
            datasets = importlib.import_module("datasets")
        except ImportError:
            raise ConfigError("a partitioner needs a library: pip install 'edgestill[hf]'") from None
        fresh = copy.deepcopy(thing)  # it takes one dataset only, once
        column = getattr(thing, "_partition_by", None) or "label"
        fresh.dataset = datasets.Dataset.from_dict({column: labels.tolist(), ROW: list(range(len(labels)))})
        return [np.asarray(fresh.load_partition(index)[ROW][:]) for index in range(devices)]

    return own
