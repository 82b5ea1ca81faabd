"""The data folder, and bounded reads: no file may take more memory than its format allows.

Datasets are read from one folder, and `data fetch` writes there: `EDGESTILL_DATA` if it is set, otherwise the user's
cache (`$XDG_CACHE_HOME/edgestill/data`, by default `~/.cache/edgestill/data`).
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from core.errors import DataError
from core.files import open_regular

__all__ = ["MAX_BYTES", "data_folder", "find", "read_limited"]

MAX_BYTES = 2 << 30  # of one user file once decompressed


def data_folder() -> Path:
    """The folder of all datasets, with one subfolder per dataset."""
    if named := os.environ.get("EDGESTILL_DATA"):
        return Path(named).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "edgestill" / "data"


def find(dataset: str, files: Sequence[str]) -> list[Path] | None:
    """The paths of all `files` of a dataset, or None if one is missing; a `.gz` may be there unpacked."""
    paths = [_present(data_folder() / dataset / name) for name in files]
    present = [path for path in paths if path]
    return present if len(present) == len(paths) else None


def _present(path: Path) -> Path | None:
    for candidate in (path, path.with_suffix("") if path.suffix == ".gz" else path.with_name(path.name + ".gz")):
        if candidate.is_file():
            return candidate
    return None


def read_limited(path: Path, limit: int) -> bytes:
    """The bytes of a file, decompressed if it ends in `.gz`; more than `limit` of them is an error."""
    try:
        with (
            os.fdopen(open_regular(path), "rb") as plain,
            gzip.open(plain, "rb") if path.suffix == ".gz" else nullcontext(plain) as file,
        ):
            data: bytes = file.read(limit + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: damaged or cut short ({error}); fetch or copy it again") from None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; check the path and its permissions") from None
    if len(data) > limit:
        raise DataError(
            f"{path}: more than {limit:,} bytes once read, which its format does not allow; is it the right file?"
        )
    return data
