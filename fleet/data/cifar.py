"""CIFAR-10 and CIFAR-100: the official binary archives, or an `.npz` with some of the images.

A binary record is its label bytes (CIFAR-10: class; CIFAR-100: coarse, fine) and 3072 pixels, channel by channel. The
archive's members are read into memory by their exact names; nothing is unpacked to disk.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from core.errors import DataError
from fleet.data.dataset import Array, Dataset, Labels, empty_like
from fleet.data.files import MAX_BYTES
from models.npz import read_npz

__all__ = ["cifar_archive", "cifar_subset"]

_PIXELS = 3 * 32 * 32
_ARCHIVE_LIMIT = 256 << 20  # the official archives unpack to 184 MB
_STATS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {  # of the whole training sets, in 0 .. 255
    "cifar10": ((125.307, 122.950, 113.865), (62.993, 62.089, 66.705)),
    "cifar100": ((129.304, 124.070, 112.434), (68.170, 65.392, 70.418)),
}


def cifar_archive(
    name: str, path: Path, class_names: tuple[str, ...], *, train: Sequence[str], test: str, records: int, labels: int
) -> Dataset:
    """From the official `.tar.gz`: `records` per file, each with `labels` label bytes of which the last is used."""
    size = records * (labels + _PIXELS)
    sizes = dict.fromkeys(train, size) | {test: 10_000 * (labels + _PIXELS)}
    raw = _members(path, sizes)
    parts = [_records(raw[member], labels) for member in train]
    x_test, y_test = _records(raw[test], labels)
    return _dataset(
        name, np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts]), x_test, y_test, class_names
    )


def cifar_subset(name: str, path: Path, class_names: tuple[str, ...]) -> Dataset:
    """From an `.npz` with `x_train` uint8 (N, 32, 32, 3) and `y_train`; `x_test` and `y_test` are optional."""
    arrays = read_npz(path, limit=MAX_BYTES)
    parts = [_checked(path, arrays, part) for part in ("train", "test") if part == "train" or "x_test" in arrays]
    (x_train, y_train), (x_test, y_test) = parts if len(parts) == 2 else (parts[0], empty_like(parts[0][0]))
    return _dataset(name, x_train, y_train, x_test, y_test, class_names, variant="subset")


def _dataset(
    name: str,
    x_train: Array,
    y_train: Labels,
    x_test: Array,
    y_test: Labels,
    class_names: tuple[str, ...],
    variant: str = "full",
) -> Dataset:
    mean, std = _STATS[name]
    return Dataset(
        name=name,
        kind="image",
        x_train=x_train,
        y_train=y_train,
        x_test=x_test,
        y_test=y_test,
        class_names=class_names,
        mean=mean,
        std=std,
        variant=variant,
    )


def _checked(path: Path, arrays: dict[str, Array], part: str) -> tuple[Array, Labels]:
    for key in (f"x_{part}", f"y_{part}"):
        if key not in arrays:
            raise DataError(f"{path}: no array {key!r}; it has {', '.join(sorted(arrays)) or 'none'}")
    x, y = arrays[f"x_{part}"], arrays[f"y_{part}"]
    if x.dtype != np.uint8 or x.ndim != 4 or x.shape[1:] != (32, 32, 3):
        raise DataError(f"{path}: x_{part} is {x.dtype} {x.shape}, expected uint8 (N, 32, 32, 3)")
    if y.dtype.kind not in "iu" or y.shape != (len(x),):
        raise DataError(f"{path}: y_{part} is {y.dtype} {y.shape}, expected {len(x)} integers")
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2)), y.astype(np.int64)


def _records(raw: bytes, labels: int) -> tuple[Array, Labels]:
    table = np.frombuffer(raw, np.uint8).reshape(-1, labels + _PIXELS)
    return table[:, labels:].reshape(-1, 3, 32, 32), table[:, labels - 1].astype(np.int64)


def _members(path: Path, sizes: dict[str, int]) -> dict[str, bytes]:
    members: dict[str, bytes] = {}
    try:
        with gzip.open(path) as unpacked, _tar(_Bounded(path, unpacked)) as archive:
            for member in archive:
                if member.name not in sizes or not member.isreg():
                    continue
                if member.size != sizes[member.name]:
                    raise DataError(
                        f"{path}: {member.name} has {member.size} bytes, expected {sizes[member.name]}; fetch it again"
                    )
                file = archive.extractfile(member)
                assert file is not None
                members[member.name] = file.read()
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: damaged or cut short ({error}); fetch or copy it again") from None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; check the path and its permissions") from None
    missing = [name for name in sizes if name not in members]
    if missing:
        raise DataError(f"{path}: no {missing[0]} inside; is it the binary version of the dataset?")
    return members


def _tar(stream: Any) -> tarfile.TarFile:
    return tarfile.open(fileobj=stream, mode="r|")


class _Bounded:
    """A reader that limits the unpacked size of an archive."""

    def __init__(self, path: Path, file: Any) -> None:
        self.path, self.file, self.left = path, file, _ARCHIVE_LIMIT

    def read(self, size: int) -> bytes:
        data: bytes = self.file.read(min(size, self.left + 1))
        self.left -= len(data)
        if self.left < 0:
            raise DataError(f"{self.path}: unpacks to more than {_ARCHIVE_LIMIT:,} bytes; it is not a CIFAR archive")
        return data
