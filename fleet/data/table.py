"""A user's `.csv` (or `.csv.gz`): one sample per row, as text or as numbers.

with a header       the column `label` (or class, target) is the label; a column `text` (or sentence) makes it
                    text; otherwise all other columns are numeric features
without a header    the first column is the label; the others are features if every cell is a number, else text,
                    joined by one space
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from core.errors import DataError
from fleet.data.dataset import Dataset
from fleet.data.files import MAX_BYTES
from fleet.data.own import own_dataset
from fleet.data.text import token_ids
from models.sources.tables import LABEL_NAMES, csv_rows, is_number, label_column

__all__ = ["csv_file"]

_TEXT = ("text", "sentence")


def csv_file(path: Path, *, vocab: int, length: int) -> Dataset:
    """The dataset in a user's csv."""
    header, rows = _read(path)
    label = _label_column(path, header, rows)
    named = [i for i, name in enumerate(header or ()) if name in _TEXT]
    others = named or [i for i in range(len(rows[0])) if i != label]
    labels = [row[label].strip() for row in rows]
    if "" in labels:
        raise DataError(f"{path}: row {labels.index('') + 1 + bool(header)} has no label")
    if not others:
        raise DataError(f"{path}: only a label column; add a text column or numeric features")
    if named or (header is None and not all(is_number(row[i]) for row in rows for i in others)):
        texts = (" ".join(row[i] for i in others) for row in rows)
        ids = token_ids(texts, vocab=vocab, length=length)
        return own_dataset(path, "text", (ids, labels), vocab=vocab)
    return own_dataset(path, "features", (_features(path, header, rows, others), labels))


def _read(path: Path) -> tuple[list[str] | None, list[list[str]]]:
    rows = list(csv_rows(path, limit=MAX_BYTES))
    header = _header(rows[0]) if rows else None
    start = 2 if header else 1
    rows = rows[1:] if header else rows
    if not rows:
        raise DataError(f"{path}: no rows; give one sample per row")
    for row_number, row in enumerate(rows, start):
        if len(row) != len(header or rows[0]):
            raise DataError(f"{path}: row {row_number} has {len(row)} columns, the first row {len(header or rows[0])}")
    return header, rows


def _header(row: list[str]) -> list[str] | None:
    """The names of the columns, if one of them names a label column."""
    names = [cell.strip().lower() for cell in row]
    return names if any(name in LABEL_NAMES for name in names) else None


def _label_column(path: Path, header: list[str] | None, rows: list[list[str]]) -> int:
    if header is None:
        _refuse_nameless(path, rows)
        return 0
    column = label_column(path, header)
    assert column is not None  # else it is no header
    return column


def _refuse_nameless(path: Path, rows: list[list[str]]) -> None:
    """Reject a first row of names above numbers: it is a header without a label column, not a sample."""
    for i, cell in enumerate(rows[0]):
        if not is_number(cell) and len(rows) > 1 and all(is_number(row[i]) for row in rows[1:]):
            raise DataError(
                f"{path}: the first row looks like column names, but none is 'label'; rename the label column"
            )


def _features(path: Path, header: list[str] | None, rows: list[list[str]], columns: list[int]) -> np.ndarray:
    for row_number, row in enumerate(rows, 2 if header else 1):
        for i in columns:
            if not is_number(row[i]):
                column = repr(header[i]) if header else i + 1
                raise DataError(f"{path}: row {row_number}, column {column}: {row[i]!r} is not a finite number")
    with np.errstate(over="ignore"):  # too large becomes infinity, which Dataset rejects and names by row
        return np.array([[float(row[i]) for i in columns] for row in rows]).astype(np.float32)
