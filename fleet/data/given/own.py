"""A dataset from what a program gives for it.

    Dataset                                     ours
    (x, y)  or  (x_train, y_train, x_test, y_test)
    {"x_train": ..., "y_train": ..., ...}       as in an .npz
    train  or  (train, test)                    datasets of torch or Hugging Face; {"train": ..., "test": ...}
    a partitioner                               the samples of all of its partitions
    a function                                  that returns one of these

Without a test part, a fifth of each class is held out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from core.entry_points import reported
from core.errors import DataError
from fleet.data.dataset import Array, Dataset
from fleet.data.given.partitioners import all_partitions, is_partitioner
from fleet.data.given.samples import Samples, samples_of
from fleet.data.npz import of_arrays

__all__ = ["data_name", "own_data"]

TESTS = ("test", "validation", "valid")


def own_data(name: str, thing: Any) -> Dataset:
    """The dataset called `name`."""
    if isinstance(thing, Dataset):
        return replace(thing, name=name)
    if callable(thing) and not hasattr(thing, "__getitem__") and not is_partitioner(thing):
        return own_data(name, reported(thing, f"dataset {name}")())
    train, test = _parts(name, thing)
    arrays = {"x_train": train.x, "y_train": train.y}
    if test is not None:
        arrays |= {"x_test": test.x, "y_test": test.y}
    if train.vocab is not None:
        arrays["vocab"] = np.array(train.vocab)
    made = of_arrays(Path(name), {key: _as_stored(value) for key, value in arrays.items()})
    names = train.names
    known = names is not None and len(names) > made.classes - 1 and _are_numbers(made.class_names, len(names))
    return _named(made, names) if known and names is not None else made


def data_name(thing: Any) -> tuple[str, Dataset]:
    """A name for data that has none, the same for the same samples, and the dataset."""
    made = own_data(getattr(thing, "__name__", "") or type(thing).__name__, thing)
    digest = hashlib.sha256()
    for array in (made.x_train, made.y_train, made.x_test, made.y_test):
        digest.update(np.ascontiguousarray(array).data)
    kind = str(getattr(thing, "__name__", "") or type(thing).__name__).lower()
    name = f"{'arrays' if kind in ('tuple', 'list', 'dict') else kind}-{digest.hexdigest()[:8]}"
    return name, replace(made, name=name)


def _parts(name: str, thing: Any) -> tuple[Samples, Samples | None]:
    if is_partitioner(thing):
        return all_partitions(name, thing)
    if isinstance(thing, Mapping):
        return _of_mapping(name, thing)
    if isinstance(thing, tuple | list):
        if len(thing) == 4:
            return samples_of(name, thing[:2]), samples_of(name, thing[2:])
        if len(thing) == 2 and not (_is_array(thing[0]) and _is_array(thing[1])):
            return samples_of(name, thing[0]), samples_of(name, thing[1])
    return samples_of(name, thing), None


def _of_mapping(name: str, thing: Mapping[str, Any]) -> tuple[Samples, Samples | None]:
    if "train" in thing:  # also a DatasetDict
        test = next((thing[key] for key in TESTS if key in thing), None)
        return samples_of(name, thing["train"]), None if test is None else samples_of(name, test)
    plain = "x" in thing and "x_train" not in thing
    x, y = ("x", "y") if plain else ("x_train", "y_train")
    for key in (x, y):
        if key not in thing:
            raise DataError(f"{name}: no {key!r} among {' '.join(map(str, thing))}; give x_train and y_train, or train")
    test = samples_of(name, (thing["x_test"], thing["y_test"])) if "x_test" in thing and "y_test" in thing else None
    vocab = int(thing["vocab"]) if "vocab" in thing else None
    return samples_of(name, (thing[x], thing[y]))._replace(vocab=vocab), test


def _is_array(thing: Any) -> bool:
    """Whether it is an array, a tensor, or a list of numbers, and no dataset."""
    return hasattr(thing, "shape") or isinstance(thing, list)


def _as_stored(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype == np.float64 else array


def _are_numbers(names: tuple[str, ...], classes: int) -> bool:
    return all(name.isdecimal() and int(name) < classes for name in names)


def _named(made: Dataset, names: tuple[str, ...]) -> Dataset:
    """The dataset with the names of its classes; those without a sample stay classes."""
    back = np.array([int(number) for number in made.class_names], np.int64)
    return replace(made, class_names=names, y_train=back[made.y_train], y_test=back[made.y_test])
