"""Windows of a sensor, from a csv or Parquet table, or a folder of them.

The first row names the columns. `columns` are the channels, by default all but the label; without `window`, each row is
a sample of that many features. With it, a sample is (channels, window): consecutive rows of one label, each window
starts `stride` rows (by default `window`) after the previous one. Windows are counted from the first row of a run of
one label, so appended rows do not change them.

The label of a row is that of `label_column` (by default label, class or target); of a table without one, that of the
file: a label file next to it, or labels.csv, as for pictures. Rows with an empty label are not used. A row with a cell
that is not a number is rejected and ends its run. The last row of a growing file is read once it has its end of line.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from core.errors import ConfigError, DataError
from edge_agent.samples.entries import Entry, Listing, digest_bytes, printable
from edge_agent.samples.folder import LABEL_SUFFIX, UNFINISHED, being_written, file_labels, side_label
from edge_agent.samples.spec import SourceSpec
from models.sources.tables import SUFFIXES, label_column, label_text, number, table_rows

__all__ = ["window_entries"]

MOST_REJECTED = 20  # rows of one file that are listed one by one
LARGEST = 3e38  # of float32
CHANNELS = "if it is not a channel, name the channels in [data] columns"


@dataclass(frozen=True, slots=True)
class _Columns:
    """Where cells are."""

    channels: tuple[int, ...]
    label: int | None
    count: int


def window_entries(spec: SourceSpec, *, now: float, limit: int) -> Listing:
    """Every window of every table; at most `limit` bytes of them, of the newest tables."""
    root, listing = Path(spec.path), Listing()
    files = _files(root, spec.labels, listing)
    labels = file_labels(root if root.is_dir() else root.parent, spec.labels, listing)
    for named in labels.keys() - {printable(file.name) for file, _ in files}:
        listing.passed_over[named] = f"{spec.labels} has a label for it, but there is no such table"
    parts: list[tuple[Path, list[Entry]]] = []
    for file, mtime in sorted(files, key=lambda found: found[1], reverse=True):
        young = being_written(mtime, now)
        if young and file.suffix != ".csv":  # only a csv can be read while it grows
            listing.writing += 1
            continue
        found: list[Entry] = []
        name = printable(file.name)
        try:
            own = side_label(file)
            whole = own if own is not None else labels.get(name)
            for entry in _table(file, mtime, spec, whole, listing, limit=limit, partial=young):
                limit -= 4 * len(entry.place)
                if limit < 0:
                    listing.beyond += 1
                    break
                found.append(entry)
        except (DataError, ConfigError) as error:
            listing.rejected[name] = printable(str(error).removeprefix(f"{file}: "))
        except OSError as error:
            listing.rejected[name] = error.strerror or str(error)
        parts.append((file, found))
    listing.entries = [entry for _, found in sorted(parts, key=lambda part: part[0].name) for entry in found]
    return listing


def _files(root: Path, labels: str, listing: Listing) -> list[tuple[Path, float]]:
    try:
        inside = list(root.iterdir()) if root.is_dir() else [root]
        wanted = [file for file in inside if root == file or _is_table(file.name, labels)]
        for file in set(inside) - set(wanted):
            if (
                file.name != labels
                and not file.name.startswith(".")
                and not file.name.endswith((*UNFINISHED, LABEL_SUFFIX))
            ):
                listing.passed_over[printable(file.name)] = f"not a table by its name; known: {' '.join(SUFFIXES)}"
        return [(file, file.stat().st_mtime) for file in wanted]
    except OSError as error:
        raise DataError(f"{root}: {error.strerror or error}; check the path and its permissions") from None


def _is_table(name: str, labels: str) -> bool:
    hidden = name.startswith(".") or name.endswith(UNFINISHED) or name == labels
    return not hidden and name.lower().endswith(SUFFIXES)


def _table(
    file: Path, mtime: float, spec: SourceSpec, whole: str | None, listing: Listing, *, limit: int, partial: bool
) -> Iterator[Entry]:
    """The windows of one file, in their order; `whole` is the label of all its rows."""
    rows = table_rows(file, limit=limit, partial=partial)
    names = [str(cell).strip() for cell in next(iter(rows), ())]
    if not names:
        return  # empty as yet
    columns = _columns(file, names, spec)
    window, stride = spec.window or 1, spec.stride or spec.window or 1
    recent: deque[list[float]] = deque(maxlen=window)
    length, longest, label, bad = 0, 0, "", 0  # of the run of one label
    for row_number, row in enumerate(rows, 2):
        values = _values(row, columns, names)
        if isinstance(values, str):
            bad += 1
            if bad <= MOST_REJECTED:
                listing.rejected[f"{printable(file.name)}, row {row_number}"] = values
            length = 0
            continue
        own = whole if whole is not None else _label(row, columns)
        length, label = (length + 1 if own == label else 1), own
        longest = max(longest, length)
        recent.append(values)
        if length >= window and (length - window) % stride == 0:
            place = array("f", (value for channel in zip(*recent, strict=True) for value in channel))
            name = f"{printable(file.name)}, row {row_number - window + 1}"
            yield Entry(name, label or None, digest_bytes(memoryview(place).cast("B")), mtime, place)
    if 0 < longest < window:
        text = f"no window: at most {longest} rows of one label follow each other, [data] window is {window}"
        listing.passed_over[printable(file.name)] = text
    if bad > MOST_REJECTED:
        listing.rejected[printable(file.name)] = f"{bad} rows with a cell that is no finite number; {CHANNELS}"


def _columns(file: Path, names: list[str], spec: SourceSpec) -> _Columns:
    lower = [name.lower() for name in names]
    if spec.label_column is None:
        label = label_column(file, lower)
    elif spec.label_column in names:
        label = names.index(spec.label_column)
    else:
        raise DataError(f"{file}: no column {spec.label_column!r} among {', '.join(islice(names, 12))}")
    missing = [name for name in spec.columns if name not in names]
    if missing:
        raise DataError(f"{file}: no column {missing[0]!r} among {', '.join(islice(names, 12))}")
    wanted = [names.index(name) for name in spec.columns] or [i for i in range(len(names)) if i != label]
    if not wanted:
        raise DataError(f"{file}: only a label column; add columns of numbers")
    return _Columns(tuple(wanted), label, len(names))


def _values(row: Sequence[Any], columns: _Columns, names: Sequence[str]) -> list[float] | str:
    """The channels of a row, or why it has none."""
    if len(row) != columns.count:
        return f"{len(row)} cells, but {columns.count} columns"
    values = []
    for i in columns.channels:
        value = number(row[i])
        if value is None or abs(value) > LARGEST:
            return f"{printable(names[i], 40)!r} is no finite number, or is missing; {CHANNELS}"
        values.append(value)
    return values


def _label(row: Sequence[Any], columns: _Columns) -> str:
    return "" if columns.label is None else printable(label_text(row[columns.label]), 100)
