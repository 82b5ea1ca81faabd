"""Rows of a user's table, `.csv`, `.csv.gz` or `.parquet`, one by one. Standard library only.

Parquet needs pyarrow, which edgestill does not install.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from core.errors import ConfigError, DataError
from core.files import open_regular

__all__ = [
    "LABEL_NAMES",
    "SUFFIXES",
    "csv_rows",
    "is_number",
    "label_column",
    "label_text",
    "number",
    "parquet_rows",
    "table_rows",
]

SUFFIXES = (".csv", ".csv.gz", ".parquet")
LABEL_NAMES = ("label", "class", "target")


def table_rows(path: Path, *, limit: int, partial: bool = False) -> Iterator[Sequence[Any]]:
    """The rows of a table of at most `limit` bytes, names of columns first.

    `partial`: the file may grow, so that a last line without its end is left out.
    """
    if path.suffix == ".parquet":
        return parquet_rows(path, limit=limit)
    return csv_rows(path, limit=limit, partial=partial)


def csv_rows(path: Path, *, limit: int, partial: bool = False) -> Iterator[list[str]]:
    """The rows of a csv that are not empty; cells are texts."""
    try:
        with os.fdopen(open_regular(path), "rb") as plain:
            file: Any = gzip.GzipFile(fileobj=plain) if path.suffix == ".gz" else plain
            text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
            yield from (row for row in csv.reader(_lines(path, text, limit, partial)) if row)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {error.start} is not UTF-8; save the table as UTF-8") from None
    except csv.Error as error:
        raise DataError(f"{path}: not a readable csv ({error})") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: damaged or cut short ({error}); fetch or copy it again") from None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; check the path and its permissions") from None


def _lines(path: Path, text: io.TextIOWrapper, limit: int, partial: bool) -> Iterator[str]:
    left = limit
    while line := text.readline(left + 1):
        left -= len(line)
        if left < 0:
            raise DataError(
                f"{path}: more than {limit:,} bytes once read, which its format does not allow; is it the right file?"
            )
        if partial and not line.endswith(("\n", "\r")):
            return
        yield line


def parquet_rows(path: Path, *, limit: int) -> Iterator[tuple[Any, ...]]:
    """The rows of a Parquet file; cells are numbers, texts or None."""
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise ConfigError(f"{path}: Parquet needs pyarrow, which is missing; install it, or save a csv") from None
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            if os.fstat(file.fileno()).st_size > limit:
                raise DataError(f"{path}: larger than the {limit:,} bytes that it may have; split it")
            table = parquet.ParquetFile(file)
            yield tuple(str(name) for name in table.schema_arrow.names)
            for batch in table.iter_batches(batch_size=4096):
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
    except (OSError, ValueError, TypeError, LookupError, RuntimeError) as error:  # pyarrow's errors derive from these
        if isinstance(error, OSError) and error.strerror:  # the system's: damaged pages are an OSError without a number
            raise DataError(f"{path}: {error.strerror}; check the path and its permissions") from None
        raise DataError(f"{path}: not a readable Parquet file ({' '.join(str(error).split())[:200]})") from None


def label_column(path: Path, names: Sequence[str]) -> int | None:
    """The column called label, class or target; None if there is none, DataError if there are several."""
    found = [i for i, name in enumerate(names) if name in LABEL_NAMES]
    if len(found) > 1:
        raise DataError(
            f"{path}: {len(found)} columns could be the label ({', '.join(names[i] for i in found)}); keep one"
        )
    return found[0] if found else None


def label_text(cell: Any) -> str:
    """The label in a cell: its text; of 2.0, as in a column of which some labels are missing, the whole number.

    >>> label_text(" cat "), label_text(b"dog"), label_text(2.0), label_text(None), label_text(math.nan)
    ('cat', 'dog', '2', '', '')
    """
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if isinstance(cell, bytes):
        return cell.decode(errors="replace").strip()
    whole = isinstance(cell, float) and cell.is_integer()
    return str(int(cell) if whole else cell).strip()


def number(cell: Any) -> float | None:
    """The finite number in a cell; None if it is not one."""
    try:
        value = float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


def is_number(cell: Any) -> bool:
    """Whether a cell is a finite number."""
    return number(cell) is not None
