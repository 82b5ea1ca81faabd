"""AG News (csv: label, title, description) and SST-2 (tsv: sentence, label), as published or gzipped.

AG News labels 1 to 4; title and description are joined by one space. SST-2's dev part serves as the test part, because
GLUE's test part has no labels. The GLUE zip is read by the exact names of its members.
"""

from __future__ import annotations

import csv
import io
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from core.errors import DataError
from fleet.data.dataset import Dataset
from fleet.data.files import read_limited
from fleet.data.text import token_ids

__all__ = ["ag_news", "sst2", "sst2_zip"]

_LIMIT = 64 << 20  # the largest file, AG News' train.csv, has 29 MB
Rows = list[tuple[int, str]]


def ag_news(paths: Sequence[Path], *, vocab: int, length: int) -> Dataset:
    """From the train and the test csv."""
    train, test = (_news(path) for path in paths)
    variant = "subset" if "subset" in paths[0].name else "full"
    return _dataset("ag_news", train, test, ("World", "Sports", "Business", "Sci/Tech"), vocab, length, variant)


def sst2(paths: Sequence[Path], *, vocab: int, length: int) -> Dataset:
    """From the train and the dev tsv."""
    train, dev = (_sentences(str(path), read_limited(path, _LIMIT)) for path in paths)
    return _dataset("sst2", train, dev, ("negative", "positive"), vocab, length)


def sst2_zip(path: Path, *, vocab: int, length: int) -> Dataset:
    """From GLUE's `SST-2.zip`."""
    parts = []
    try:
        with zipfile.ZipFile(path) as archive:
            for name in ("SST-2/train.tsv", "SST-2/dev.tsv"):
                with archive.open(name) as file:
                    data = file.read(_LIMIT + 1)
                if len(data) > _LIMIT:
                    raise DataError(f"{path}: {name} is larger than {_LIMIT:,} bytes; it is not GLUE's SST-2")
                parts.append(_sentences(f"{path}/{name}", data))
    except KeyError as error:
        raise DataError(f"{path}: {error.args[0]}; is it GLUE's SST-2.zip?") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise DataError(f"{path}: damaged or cut short ({error}); fetch or copy it again") from None
    return _dataset("sst2", parts[0], parts[1], ("negative", "positive"), vocab, length)


def _dataset(
    name: str, train: Rows, test: Rows, class_names: tuple[str, ...], vocab: int, length: int, variant: str = "full"
) -> Dataset:
    (y_train, x_train), (y_test, x_test) = (
        (
            np.array([label for label, _ in rows], np.int64),
            token_ids((text for _, text in rows), vocab=vocab, length=length),
        )
        for rows in (train, test)
    )
    return Dataset(
        name=name,
        kind="text",
        x_train=x_train,
        y_train=y_train,
        x_test=x_test,
        y_test=y_test,
        class_names=class_names,
        vocab=vocab,
        variant=variant,
    )


def _news(path: Path) -> Rows:
    rows: Rows = []
    text = _decoded(str(path), read_limited(path, _LIMIT))
    try:
        table = list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise DataError(f"{path}: not a readable csv ({error}); fetch or copy it again") from None
    for number, row in enumerate(table, 1):
        if len(row) not in (2, 3) or row[0] not in ("1", "2", "3", "4"):
            raise DataError(
                f"{path}: row {number}: expected a label of 1 to 4, a title and a description, got {row[:1]}"
            )
        rows.append((int(row[0]) - 1, " ".join(row[1:])))
    return _some(str(path), rows)


def _sentences(source: str, data: bytes) -> Rows:
    header, *lines = _decoded(source, data).split("\n")  # not splitlines: a sentence may hold other line breaks
    if header.rstrip("\r") != "sentence\tlabel":
        raise DataError(f"{source}: the first line is {header[:40]!r}, expected 'sentence<TAB>label'")
    rows: Rows = []
    for number, line in enumerate(lines, 2):
        if not line and number == len(lines) + 1:
            break  # the empty text after the last newline
        sentence, tab, label = line.rstrip("\r").rpartition("\t")
        if not tab or label not in ("0", "1"):
            raise DataError(f"{source}: line {number}: expected a sentence, a tab and 0 or 1, got {line[-20:]!r}")
        rows.append((int(label), sentence))
    return _some(source, rows)


def _decoded(source: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{source}: byte {error.start} is not UTF-8; fetch or copy it again") from None


def _some(source: str, rows: Rows) -> Rows:
    if not rows:
        raise DataError(f"{source}: no rows; fetch or copy it again")
    return rows
