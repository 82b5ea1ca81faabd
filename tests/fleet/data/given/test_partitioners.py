"""Partitioners in the manner of flwr-datasets."""

from typing import Any

import numpy as np
import pytest

from core.errors import ConfigError
from fleet.data.given.own import own_data
from fleet.data.given.partitioners import is_partitioner, partition_of

X, Y = np.arange(30 * 4, dtype=np.float32).reshape(30, 4), np.arange(30) % 3


class WithSamples:
    """Every third sample, from an own dataset."""

    num_partitions = 3
    dataset = "there is one"

    def load_partition(self, index: int) -> Any:
        return X[index::3], Y[index::3]


class ByLabel:
    """As flwr-datasets: assigned once, then a table per partition."""

    num_partitions = 3

    def __init__(self) -> None:
        self._partition_by = "kind"
        self._dataset: Any = None

    @property
    def dataset(self) -> Any:
        return self._dataset

    @dataset.setter
    def dataset(self, table: Any) -> None:
        assert self._dataset is None
        self._dataset = table

    def load_partition(self, index: int) -> Any:
        return self.dataset.filter(lambda row: row["kind"] == index)


class Federated:
    """As flwr-datasets' FederatedDataset."""

    def __init__(self) -> None:
        self.partitioners = {"train": WithSamples()}

    def load_partition(self, index: int) -> Any:
        return WithSamples().load_partition(index)

    def load_split(self, split: str) -> Any:
        assert split == "test"
        return X[:4], Y[:4]


def test_they_are_recognized_by_what_they_do() -> None:
    assert is_partitioner(WithSamples())
    assert is_partitioner(Federated())
    assert not is_partitioner(WithSamples)
    assert not is_partitioner((X, Y))


def test_its_samples_and_its_partition_belong_together() -> None:
    for thing, tests in ((WithSamples(), 6), (Federated(), 4)):
        made, split = own_data("mine", thing), partition_of(thing)
        assert len(made.y_test) == tests
        assert split.__name__ == "WithSamples"
    parts = split(np.concatenate([Y[n::3] for n in range(3)]), 3)
    assert [len(part) for part in parts] == [10, 10, 10]
    with pytest.raises(ConfigError, match="its devices have 30 samples, but 20 are left"):
        split(Y[:20], 3)


def test_one_without_samples_splits_any_labels() -> None:
    pytest.importorskip("datasets")
    thing = ByLabel()
    for labels in (Y, Y[:9]):
        parts = partition_of(thing)(labels, 3)
        assert all((labels[part] == n).all() for n, part in enumerate(parts))
        assert sum(map(len, parts)) == len(labels)
    with pytest.raises(ConfigError, match="it has 3 partitions for 5 devices"):
        partition_of(thing)(Y, 5)
