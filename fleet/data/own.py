"""Shared by the file formats of users: labels of any kind to 0 .. C-1, and a dataset with a test part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from core.errors import DataError
from fleet.data.dataset import Array, Dataset, Kind, Labels, empty_like, hold_out

__all__ = ["own_dataset", "sorted_classes"]


def sorted_classes(labels: Sequence[str] | Array) -> list[str]:
    """The distinct labels, by value if all are integers, else by name.

    >>> sorted_classes(["10", "9", "9"]), sorted_classes(["b", "10", "a"])
    (['9', '10'], ['10', 'a', 'b'])
    """
    names = {str(label) for label in labels}
    try:
        return sorted(names, key=lambda name: (int(name), name))
    except ValueError:
        return sorted(names)


def own_dataset(
    path: Path,
    kind: Kind,
    train: tuple[Array, Sequence[str] | Array],
    test: tuple[Array, Sequence[str] | Array] | None = None,
    *,
    vocab: int | None = None,
) -> Dataset:
    """A dataset of a user's samples; without a test part, a fifth of each class is held out.

    Images are normalised to [-1, 1] if they are bytes and unchanged if they are floats; features are standardised by
    the training part.
    """
    names = sorted_classes([str(label) for _, labels in (train, test or train) for label in labels])
    index = {name: number for number, name in enumerate(names)}

    def numbers(labels: Sequence[str] | Array) -> Labels:
        return np.array([index[str(label)] for label in labels], np.int64)

    x_test, y_test = (test[0], numbers(test[1])) if test else empty_like(train[0])
    fields: dict[str, Any] = {"x_train": train[0], "y_train": numbers(train[1]), "x_test": x_test, "y_test": y_test}
    if kind == "image" and train[0].dtype == np.uint8:
        fields |= {"mean": (127.5,), "std": (127.5,)}
    if len(names) == 1:
        raise DataError(f"{path}: every sample has the label {names[0]!r}; a classifier needs two or more classes")
    dataset = Dataset(name=path.name, kind=kind, class_names=tuple(names), vocab=vocab, **fields)
    if not len(dataset.y_test):
        dataset = hold_out(dataset)
    return _standardised(dataset) if kind == "features" else dataset


def _standardised(dataset: Dataset) -> Dataset:
    std = dataset.x_train.std(axis=0, dtype=np.float64)
    std[std == 0] = 1.0  # a constant feature carries no information and must not divide by zero
    mean = dataset.x_train.mean(axis=0, dtype=np.float64)
    return replace(dataset, mean=tuple(mean.tolist()), std=tuple(std.tolist()))
