"""Where data lies, and reading it with a bound: no file may grow in memory beyond what its format allows.

Folders searched, in this order: `EDGESTILL_DATA` alone if it is set; otherwise `../shared/data` beside the working
folder or beside this checkout, then the user's cache (`~/.cache/edgestill/data`), which is where `data fetch` writes.
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

__all__ = ["MAX_BYTES", "cache_folder", "data_folders", "fetch_folder", "find", "read_limited"]

MAX_BYTES = 2 << 30  # of one user file once decompressed


def cache_folder() -> Path:
    """The user's own data folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "edgestill" / "data"


def fetch_folder() -> Path:
    """Where `data fetch` writes unless told otherwise."""
    named = os.environ.get("EDGESTILL_DATA")
    return Path(named).expanduser() if named else cache_folder()


def data_folders() -> list[Path]:
    """Folders that are searched for datasets, first match wins."""
    named = os.environ.get("EDGESTILL_DATA")
    if named:
        return [Path(named).expanduser()]
    checkout = Path(__file__).resolve().parents[2]
    beside = [base.parent / "shared" / "data" for base in (Path.cwd(), checkout)]
    folders = [folder for folder in dict.fromkeys(beside) if folder.is_dir()]
    return [*folders, cache_folder()]


def find(dataset: str, files: Sequence[str]) -> list[Path] | None:
    """The paths of all `files` of a dataset in the first folder that has them; a `.gz` may be there unpacked."""
    for folder in data_folders():
        paths = [_present(folder / dataset / name) for name in files]
        if all(paths):
            return [path for path in paths if path]
    return None


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
