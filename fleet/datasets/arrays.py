"""Reading `.npz` without trust: no pickled objects, and no array larger than its member really is.

`numpy.load` allocates what an array's header claims before it reads; here header and member size are compared first.
"""

from __future__ import annotations

import math
import os
import tokenize
import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from fleet.datasets.dataset import Array
from fleet.datasets.files import MAX_BYTES
from wire.errors import DataError
from wire.files import open_regular

__all__ = ["read_npz"]

_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
# what zipfile and numpy's header parser raise for bytes that are not theirs
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    tokenize.TokenError,
    ValueError,
    TypeError,
    KeyError,
    SyntaxError,
    EOFError,
    RuntimeError,
)


def read_npz(path: Path, *, limit: int = MAX_BYTES) -> dict[str, Array]:
    """All arrays of an `.npz` by name; numbers only, `limit` bytes in all."""
    try:
        with os.fdopen(open_regular(path), "rb") as file, zipfile.ZipFile(file) as archive:
            members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
            total = sum(info.file_size for info in members)
            if total > limit:
                raise DataError(f"{path}: its arrays take {total:,} bytes, the limit is {limit:,}; store fewer samples")
            for info in members:
                _check_header(path, archive, info)
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except _DAMAGE as error:
        raise DataError(f"{path}: not a readable .npz ({error}); save it anew with numpy.savez") from None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; check the path and its permissions") from None


def _check_header(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
    name = info.filename[:-4]
    with archive.open(info) as file:
        version = npy.read_magic(file)
        if version not in _READERS:
            raise DataError(f"{path}: array {name!r} has .npy version {version}; save it anew with numpy.savez")
        shape, _, dtype = _READERS[version](file)
        if dtype.hasobject or dtype.kind not in "biuf":
            raise DataError(f"{path}: array {name!r} holds {dtype}, not numbers; save plain arrays")
        if math.prod(shape) * dtype.itemsize != info.file_size - file.tell():
            raise DataError(f"{path}: array {name!r} claims a shape of {shape}, its bytes do not; the file is damaged")
