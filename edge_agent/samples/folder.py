"""A folder of pictures: one subfolder per class, a labels file, or a label file next to a picture.

    cat/0001.png             the label is the subfolder's name
    0002.png                 unlabeled and not used, until it is moved into a subfolder, or gets
    0002.png.label           a file next to it with the name of its class, or
    labels.csv               rows `file,label`, file as seen from the folder: dog/0003.png, 0002.png

A label file comes before labels.csv, which comes before the subfolder; an empty label makes a picture unlabeled. Hidden
files, and those that end in .part or .tmp, are ignored; a file is used once it has not changed for SETTLE_S seconds.
Deeper folders are not read.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator
from pathlib import Path

from core.errors import ConfigError, DataError
from core.files import read_regular
from edge_agent.samples.entries import Entry, Listing, digest_bytes, printable
from edge_agent.samples.ledger import Ledger, Note
from edge_agent.samples.spec import SourceSpec
from models.sources.images import SUFFIXES, check_picture, open_picture
from models.sources.tables import csv_rows

__all__ = ["LABEL_SUFFIX", "MOST_FILE", "SETTLE_S", "being_written", "file_labels", "folder_entries", "side_label"]

SETTLE_S = 2.0
LABEL_SUFFIX = ".label"
MOST_FILE = 64 * 2**20  # bytes of a picture
MOST_LABELS = 64 * 2**20  # of labels.csv
LONGEST_LABEL = 100
UNFINISHED = (".part", ".tmp")


def folder_entries(spec: SourceSpec, ledger: Ledger, *, now: float, stop_at: float) -> Listing:
    """All pictures; those not reached before `stop_at`, on the monotonic clock, stay unchecked."""
    root, listing = Path(spec.path), Listing()
    labels = file_labels(root, spec.labels, listing)
    seen = set()
    for file in _pictures(root, spec.labels, listing):
        name = printable(file.relative_to(root).as_posix())
        seen.add(name)
        try:
            facts = file.stat()
            if being_written(facts.st_mtime, now):
                listing.writing += 1
                continue
            note = ledger.get(name, facts.st_size, facts.st_mtime_ns)
            if note is None and time.monotonic() > stop_at:
                listing.unchecked += 1
                continue
            if note is None:
                ledger.put(name, note := _looked_at(file, facts))
            own = side_label(file)
        except OSError as error:  # it was moved meanwhile, or cannot be read
            if not isinstance(error, FileNotFoundError):
                listing.rejected[name] = error.strerror or str(error)
            continue
        if note.reason:
            listing.rejected[name] = note.reason
            continue
        label = (
            own
            if own is not None
            else labels.get(name, "" if file.parent == root else printable(file.parent.name, LONGEST_LABEL))
        )
        listing.entries.append(Entry(name, label or None, bytes.fromhex(note.digest), facts.st_mtime, file))
    for name in labels.keys() - seen:
        listing.passed_over[name] = f"{spec.labels} has a label for it, but there is no such picture"
    ledger.keep_only(seen)
    ledger.save()
    return listing


def being_written(mtime: float, now: float) -> bool:
    """Whether a file has just changed; after a backward jump of the clock no file has."""
    return abs(now - mtime) < SETTLE_S


def side_label(file: Path) -> str | None:
    """The unchanged content of the label file next to a sample; None if there is no such file."""
    try:
        text = read_regular(file.with_name(file.name + LABEL_SUFFIX), 4096).decode(errors="replace")
    except FileNotFoundError:
        return None
    return _clean(text)


def file_labels(folder: Path, name: str, listing: Listing) -> dict[str, str]:
    """Labels by file, read from the file `name`; malformed rows and an unreadable file are rejected."""
    path, labels = folder / name, dict[str, str]()
    if not path.exists():
        if name != SourceSpec(path="").labels:  # one that was asked for
            listing.passed_over[name] = "the file of [data] labels is not there"
        return labels
    try:
        for number, row in enumerate(csv_rows(path, limit=MOST_LABELS, partial=True), 1):
            if number == 1 and [cell.strip().lower() for cell in row[:2]] == ["file", "label"]:
                continue
            if len(row) != 2:
                listing.rejected[f"{path.name}, row {number}"] = f"{len(row)} columns, expected file,label"
                continue
            labels[printable(row[0].strip().removeprefix("./"))] = _clean(row[1])
    except DataError as error:
        listing.rejected[path.name] = str(error)
    return labels


def _clean(text: str) -> str:
    line = text.strip().splitlines()[0].strip() if text.strip() else ""
    return printable(line, LONGEST_LABEL)


def _pictures(root: Path, labels: str, listing: Listing) -> Iterator[Path]:
    """Files of the folder and its subfolders by name, in this order; what is neither picture nor label is noted."""
    try:
        with os.scandir(root) as found:
            entries = sorted((entry for entry in found if not entry.name.startswith(".")), key=lambda entry: entry.name)
    except OSError as error:
        raise DataError(f"{root}: {error.strerror or error}; make the folder, or check its permissions") from None
    for entry in entries:
        if entry.is_dir():
            try:
                inside = sorted(os.listdir(entry.path))
            except OSError as error:
                listing.passed_over[printable(f"{entry.name}/")] = error.strerror or str(error)
                continue
            for name in inside:
                if _is_picture(name):
                    yield Path(entry.path, name)
                elif not _is_ours(name):
                    listing.passed_over[printable(f"{entry.name}/{name}")] = _why_not(Path(entry.path, name))
        elif _is_picture(entry.name):
            yield Path(entry.path)
        elif not _is_ours(entry.name) and entry.name != labels:
            listing.passed_over[printable(entry.name)] = _why_not(Path(entry.path))


def _is_picture(name: str) -> bool:
    return not name.startswith(".") and not name.endswith(UNFINISHED) and Path(name).suffix.lower() in SUFFIXES


def _is_ours(name: str) -> bool:
    """Whether a file that is no picture has a purpose here, or will be one."""
    return name.startswith(".") or name.endswith((*UNFINISHED, LABEL_SUFFIX))


def _why_not(path: Path) -> str:
    if path.is_dir():
        return "a folder in a class's folder is not looked into"
    return f"not a picture by its name; known: {' '.join(sorted(SUFFIXES))}"


def _looked_at(file: Path, facts: os.stat_result) -> Note:
    """A picture, decoded once: the header of a truncated file may be intact."""
    try:
        content = read_regular(file, MOST_FILE)
    except FileNotFoundError:
        raise
    except OSError as error:
        return Note(facts.st_size, facts.st_mtime_ns, "", error.strerror or "cannot be read")
    reason = ""
    try:
        with open_picture(file, io.BytesIO(content)) as image:
            check_picture(file, image)
            image.load()
    except ConfigError as error:
        raise DataError(str(error)) from None
    except (DataError, OSError, ValueError, SyntaxError, EOFError, MemoryError) as error:
        reason = str(error).removeprefix(f"{file}: ") or type(error).__name__
    except Exception as error:  # what a decoder makes of hostile bytes costs this file alone
        reason = f"{type(error).__name__}: {error}"
    return Note(facts.st_size, facts.st_mtime_ns, digest_bytes(content).hex(), printable(" ".join(reason.split())))
