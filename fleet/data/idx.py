"""IDX, the format of the MNIST family: big-endian magic and sizes, then the bytes.

0x00 0x00 0x08 ndim | ndim x uint32 sizes | uint8 data      0x08 is "unsigned byte", the only type used here
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from core.errors import DataError
from fleet.data.dataset import Array, Dataset
from fleet.data.files import read_limited

__all__ = ["FILES", "mnist_family", "read_idx"]

FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


def read_idx(path: Path, shape: Sequence[int]) -> Array:
    """The uint8 array of an IDX file, which must have exactly this shape."""
    header = 4 + 4 * len(shape)
    expected = header + math.prod(shape)
    data = read_limited(path, expected)
    magic = int.from_bytes(data[:4], "big")
    if len(data) < header or magic != 0x0800 + len(shape):
        raise DataError(
            f"{path}: magic number {magic:#010x}, expected {0x0800 + len(shape):#010x}; not such an IDX file"
        )
    actual = tuple(int.from_bytes(data[at : at + 4], "big") for at in range(4, header, 4))
    if actual != tuple(shape):
        raise DataError(f"{path}: holds an array of {actual}, expected {tuple(shape)}; is it the right file?")
    if len(data) != expected:
        raise DataError(f"{path}: {len(data)} bytes, expected {expected}; it is cut short, fetch or copy it again")
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)


def mnist_family(
    name: str, paths: Sequence[Path], class_names: tuple[str, ...], sizes: tuple[int, int] = (60_000, 10_000)
) -> Dataset:
    """MNIST or a dataset of its form, from its four files in the order of `FILES`; inputs are in [-1, 1]."""
    train, test = sizes
    return Dataset(
        name=name,
        kind="image",
        x_train=read_idx(paths[0], (train, 28, 28))[:, None],
        y_train=read_idx(paths[1], (train,)).astype(np.int64),
        x_test=read_idx(paths[2], (test, 28, 28))[:, None],
        y_test=read_idx(paths[3], (test,)).astype(np.int64),
        class_names=class_names,
        mean=(127.5,),
        std=(127.5,),
    )
