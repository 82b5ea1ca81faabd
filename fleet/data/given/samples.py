"""Samples and labels as arrays, from what a program holds them in.

    (x, y)                    arrays, tensors or lists
    torch's Dataset           anything with a length whose items are (sample, label), as torchvision's
    Hugging Face's Dataset    a column of images, texts or numbers, and one of labels

Items are read once: a random transform is drawn once for each sample.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from core.errors import DataError
from fleet.data.dataset import Array
from fleet.data.text import VOCAB, token_ids

__all__ = ["Samples", "samples_of"]

LABELS = ("label", "labels", "fine_label", "target", "y")
SAMPLES = ("image", "img", "text", "sentence", "features", "x")


class Samples(NamedTuple):
    """One part of a dataset; `vocab` if the samples are token ids."""

    x: Array
    y: Array
    names: tuple[str, ...] | None = None  # of the classes
    vocab: int | None = None


def samples_of(name: str, thing: Any) -> Samples:
    """The samples in `thing`; DataError says what is expected instead."""
    if isinstance(thing, Samples):
        return thing
    if isinstance(thing, tuple | list) and len(thing) == 2 and all(hasattr(part, "__len__") for part in thing):
        return Samples(_array(name, thing[0]), _array(name, thing[1]))
    if hasattr(thing, "features") and hasattr(thing, "column_names"):
        return _of_table(name, thing)
    tensors = getattr(thing, "tensors", None)
    if isinstance(tensors, tuple) and len(tensors) == 2:  # TensorDataset: no need to stack its items
        return Samples(_array(name, tensors[0]), _array(name, tensors[1]), _names(thing))
    if hasattr(thing, "__len__") and hasattr(thing, "__getitem__") and not isinstance(thing, dict):
        return _of_items(name, thing)
    raise DataError(f"{name}: is a {type(thing).__name__}; give arrays (x, y), or a dataset of torch or Hugging Face")


def _array(name: str, values: Any) -> Array:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values, torch.Tensor):
        values = values.numpy(force=True)
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DataError(f"{name}: samples of different shapes ({error}); resize them") from None
    if array.dtype == object:
        raise DataError(f"{name}: samples of different shapes, or no numbers; give arrays of equal ones")
    return array


def _of_items(name: str, items: Any) -> Samples:
    xs, ys = [], []
    for index in range(len(items)):
        item = items[index]
        if not (isinstance(item, tuple | list) and len(item) == 2):
            raise DataError(f"{name}: item {index} is a {type(item).__name__}; expected (sample, label)")
        xs.append(_array(name, item[0]))
        ys.append(int(item[1]))
    if not xs:
        raise DataError(f"{name}: no samples")
    return Samples(_stacked(name, xs), np.array(ys, np.int64), _names(items))


def _stacked(name: str, parts: Sequence[Array]) -> Array:
    if len({part.shape for part in parts}) > 1:
        shapes = sorted({part.shape for part in parts})[:2]
        raise DataError(f"{name}: samples of different shapes, such as {shapes[0]} and {shapes[1]}; resize them")
    return np.stack(parts)


def _names(thing: Any) -> tuple[str, ...] | None:
    """The names of the classes, as torchvision's datasets have them."""
    names = getattr(thing, "classes", None)
    return tuple(map(str, names)) if isinstance(names, list | tuple) else None


def _of_table(name: str, table: Any) -> Samples:
    """A table of Hugging Face: its types say which column is which, or their names do."""
    kinds = {column: type(feature).__name__ for column, feature in table.features.items()}
    label = _column(name, kinds, "ClassLabel", LABELS, "labels")
    rest = {column: kind for column, kind in kinds.items() if column != label}
    sample = _column(name, rest, "Image", SAMPLES, "samples")
    names = getattr(table.features[label], "names", None)
    y = np.asarray(table[label][:])
    values = list(table[sample][:])
    if not values:
        raise DataError(f"{name}: no samples")
    if isinstance(values[0], str):
        return Samples(token_ids(values), y, _tuple(names), VOCAB)
    return Samples(_stacked(name, [_array(name, value) for value in values]), y, _tuple(names))


def _tuple(names: Any) -> tuple[str, ...] | None:
    return tuple(map(str, names)) if names else None


def _column(name: str, kinds: dict[str, str], kind: str, usual: Sequence[str], what: str) -> str:
    typed = [column for column, of_kind in kinds.items() if of_kind == kind]
    named = [column for column in usual if column in kinds]
    for several in (typed if len(typed) == 1 else [], named, list(kinds) if len(kinds) == 1 else []):
        if several:
            return several[0]
    raise DataError(f"{name}: which column has the {what}? known: {' '.join(kinds)}; rename one to {usual[0]!r}")
