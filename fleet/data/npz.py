"""A user's `.npz`: `x_train` and `y_train`, with or without `x_test` and `y_test`; or simply `x` and `y`.

samples   uint8 or float (N, C, H, W) or (N, H, W, C) with 1 or 3 channels, (N, H, W) grey;
          float (N, F) features; integers (N, L) with a `vocab` array of one number: token ids, 0 is padding
labels    integers (N,), any values; they become 0 .. C-1 in ascending order
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from core.errors import DataError
from fleet.data.dataset import Array, Dataset, Kind
from fleet.data.files import MAX_BYTES
from fleet.data.own import own_dataset
from models.npz import read_npz

__all__ = ["npz_file", "of_arrays"]

_LAYOUT = "save x_train and y_train (and x_test, y_test), or x and y"


def npz_file(path: Path) -> Dataset:
    """The dataset in a user's `.npz`."""
    return of_arrays(path, read_npz(path, limit=MAX_BYTES))


def of_arrays(path: Path, arrays: dict[str, Array]) -> Dataset:
    """The dataset of these arrays; errors start with `path`, and it is named after it."""
    plain = "x" in arrays and "x_train" not in arrays
    vocab = _vocab(path, arrays)
    x, kind = _samples(path, arrays, "x" if plain else "x_train", vocab)
    train = x, _labels(path, arrays, "y" if plain else "y_train", len(x))
    test = None
    if "x_test" in arrays:
        x_test, _ = _samples(path, arrays, "x_test", vocab)
        test = x_test, _labels(path, arrays, "y_test", len(x_test))
    return own_dataset(path, kind, train, test, vocab=vocab)


def _get(path: Path, arrays: dict[str, Array], key: str) -> Array:
    if key not in arrays:
        raise DataError(f"{path}: no array {key!r} among {', '.join(sorted(arrays)) or 'none'}; {_LAYOUT}")
    if not arrays[key].size:
        raise DataError(f"{path}: array {key!r} is empty; {_LAYOUT}")
    return arrays[key]


def _vocab(path: Path, arrays: dict[str, Array]) -> int | None:
    if "vocab" not in arrays:
        return None
    vocab = _get(path, arrays, "vocab")
    if vocab.size != 1 or vocab.dtype.kind not in "iu" or int(vocab.reshape(())) < 2:
        raise DataError(f"{path}: vocab must be one integer of 2 or more, the number of token ids")
    return int(vocab.reshape(()))


def _samples(path: Path, arrays: dict[str, Array], key: str, vocab: int | None) -> tuple[Array, Kind]:
    x = _get(path, arrays, key)
    if vocab is not None:
        if x.ndim != 2 or x.dtype.kind not in "iu":
            raise DataError(f"{path}: {key} is {x.dtype} {x.shape}, token ids are integers (N, L)")
        return x.astype(np.int64), "text"
    if x.ndim == 2:
        return _float32(x), "features"
    if x.dtype != np.uint8:
        if x.dtype.kind != "f":
            raise DataError(f"{path}: {key} is {x.dtype}; save images as uint8 (0 to 255) or float32")
        x = _float32(x)
    return _channels_first(path, key, x), "image"


def _float32(x: Array) -> Array:
    with np.errstate(over="ignore"):  # too large becomes infinity, which Dataset rejects and names by row
        return x.astype(np.float32)


def _channels_first(path: Path, key: str, x: Array) -> Array:
    if x.ndim == 3:
        return x[:, None]
    if x.ndim == 4 and x.shape[1] in (1, 3):
        return x
    if x.ndim == 4 and x.shape[3] in (1, 3):
        return np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    raise DataError(f"{path}: {key} has shape {x.shape}; images are (N, C, H, W), (N, H, W, C) or (N, H, W)")


def _labels(path: Path, arrays: dict[str, Array], key: str, count: int) -> Array:
    y = _get(path, arrays, key)
    if y.dtype.kind not in "iu" or y.shape != (count,):
        raise DataError(f"{path}: {key} is {y.dtype} {y.shape}, expected {count} integers, one label per sample")
    return y
