"""Reading untrusted `.npz` and `.npy`: no pickled objects, and no array larger than its file.

`numpy.load` allocates what an array's header claims before it reads. Here the header is compared with the size of the
member, and the sizes with a bound, before anything is read. NumPy only.
"""

from __future__ import annotations

import io
import lzma
import math
import os
import stat
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from core.errors import DataError

__all__ = ["array_shape", "memory_bound", "parse_npy", "read_npy", "read_npz", "stored_dtype"]

Array = NDArray[Any]
MAX_MEMBERS = 1000
_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
# raised by zipfile and NumPy's header parser on malformed input
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    tokenize.TokenError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    SyntaxError,
    EOFError,
    RuntimeError,
)


def memory_bound() -> int:
    """Half of this machine's memory: larger sets of samples cannot be processed."""
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) // 2


def read_npz(
    path: Path, names: Collection[str] | None = None, *, limit: int | None = None, how: str = "with numpy.savez"
) -> dict[str, Array]:
    """The arrays of an `.npz` by name, or those of `names` that it has; numbers only, `limit` bytes in all.

    `how` completes the advice in error messages.
    """
    limit = memory_bound() if limit is None else limit
    with _faults_told(path, ".npz", "samples", f"save it anew {how}"):
        _check_file(path)
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            if len(archive.infolist()) > MAX_MEMBERS or len(members) < len(archive.infolist()):
                raise DataError(f"{path}: {len(archive.infolist())} arrays, some of one name; save it again {how}")
            wanted = {n: i for n, i in members.items() if i.filename.endswith(".npy") and (names is None or n in names)}
            total = sum(info.file_size for info in wanted.values())
            if total > limit:
                raise DataError(f"{path}: its arrays take {total:,} bytes, the limit is {limit:,}; store fewer samples")
            return {name: _read_member(path, archive, info, how) for name, info in wanted.items()}


def array_shape(path: Path, name: str) -> tuple[int, ...]:
    """The shape of an array of an `.npz` by its header; (0,) if there is no such array."""
    with _faults_told(path, ".npz", "samples", "save it anew with numpy.savez"):
        _check_file(path)
        with zipfile.ZipFile(path) as archive:
            if f"{name}.npy" not in archive.namelist():
                return (0,)
            with archive.open(f"{name}.npy") as file:
                version = npy.read_magic(file)
                if version not in _READERS:
                    raise DataError(
                        f"{path}: array {name!r} has .npy version {version}; save it again with numpy.savez"
                    )
                return tuple(_READERS[version](file)[0])


def read_npy(path: Path, *, limit: int | None = None) -> Array:
    """The array of an `.npy`, with the same checks."""
    limit = memory_bound() if limit is None else limit
    with _faults_told(path, ".npy", "inputs", "save it with numpy.save"):
        size = _check_file(path)
        if size > limit:
            raise DataError(f"{path}: {size:,} bytes, the limit is {limit:,}; store fewer inputs")
        with path.open("rb") as file:
            return _read_array(file, size, f"{path}: the array", "with numpy.save")


def parse_npy(data: bytes, where: str) -> Array:
    """The array in the bytes of an `.npy`, with the same checks; errors name `where`."""
    with _faults_told(where, ".npy", "inputs", "save it with numpy.save"):
        return _read_array(io.BytesIO(data), len(data), f"{where}: the array", "with numpy.save")


def stored_dtype(path: Path, name: str) -> np.dtype[Any] | None:
    """The dtype of one array of an `.npz`, from its header alone; None if there is no such array."""
    with _faults_told(path, ".npz", "samples", "save it anew with numpy.savez"):
        _check_file(path)
        with zipfile.ZipFile(path) as archive:
            if f"{name}.npy" not in archive.namelist():
                return None
            with archive.open(f"{name}.npy") as file:
                version = npy.read_magic(file)
                if version not in _READERS:
                    raise DataError(f"{path}: array {name!r} has .npy version {version}; save it anew")
                return _READERS[version](file)[2]


@contextmanager
def _faults_told(path: Path | str, kind: str, fewer: str, remedy: str) -> Iterator[None]:
    """What reading a file of this kind raises, as one line that says what to do: store `fewer`, or `remedy`."""
    try:
        yield
    except MemoryError:
        raise DataError(f"{path}: takes more memory than this process may have; store fewer {fewer}") from None
    except _DAMAGE as error:
        raise DataError(f"{path}: not a readable {kind} ({_why(error)}); {remedy}") from None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; check the path and its permissions") from None


def _check_file(path: Path) -> int:
    facts = path.stat()
    if not stat.S_ISREG(facts.st_mode):
        raise DataError(f"{path}: not a file; give the path of one")
    return facts.st_size


def _read_member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, how: str) -> Array:
    with archive.open(info) as file:
        return _read_array(file, info.file_size, f"{path}: array {info.filename[:-4]!r}", how)


def _read_array(file: IO[bytes], size: int, what: str, how: str) -> Array:
    version = npy.read_magic(file)
    if version not in _READERS:
        raise DataError(f"{what} has .npy version {version}; save it again {how}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on headers of Python 2, which are read anyway
        shape, fortran, dtype = _READERS[version](file)
    if dtype.hasobject or dtype.kind not in "biuf":
        raise DataError(f"{what} holds {dtype}, not numbers; save plain arrays {how}")
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count * dtype.itemsize != size - file.tell():
        raise DataError(f"{what} claims a shape of {_short(shape)}, its bytes do not; the file is damaged")
    array: Array = np.empty(count, dtype)
    view = array.view(np.uint8).data if count else memoryview(b"")
    done = 0
    while done < len(view):
        read = file.readinto(view[done:])  # type: ignore[attr-defined]
        if not read:
            raise EOFError("cut short")
        done += read
    file.read(1)  # makes zipfile check the checksum
    return array.reshape(shape[::-1]).T if fortran else array.reshape(shape)


def _short(shape: tuple[int, ...]) -> str:
    text = str(shape)
    return text if len(text) <= 60 else text[:57] + "…"


def _why(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
