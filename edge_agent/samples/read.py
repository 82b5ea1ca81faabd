"""From a source to training samples, in one pass: listed, checked against the task, selected, decoded, normalised.

Only selected samples are decoded, directly into the array that training uses. They may take half of the board's memory
(`models/npz.py`), or of [train] memory_mb; if there are more, the policy of `[data] keep` selects.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import DataError
from edge_agent.samples.choice import Choice, choose
from edge_agent.samples.entries import Entry, Listing
from edge_agent.samples.folder import folder_entries
from edge_agent.samples.ledger import Ledger
from edge_agent.samples.spec import SourceSpec
from edge_agent.samples.survey import Survey, make_survey, unreadable
from edge_agent.samples.task_file import KnownTask
from edge_agent.samples.windows import window_entries

if TYPE_CHECKING:
    from edge_agent.samples.arrays import Arrays
    from models.samples import Samples

__all__ = ["Board", "array_rows", "memory_limit", "read_samples", "survey_samples"]

FOREVER = math.inf
FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """The samples of a board for one round."""

    train: Samples
    held: Samples | None
    survey: Survey


def memory_limit(spec: SourceSpec) -> int:
    """Bytes that samples may take."""
    bound = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    return bound if spec.memory_mb is None else min(bound, spec.memory_mb * 2**20 // 2)


def survey_samples(
    spec: SourceSpec, state_dir: Path, known: KnownTask | None, *, stop_at: float = FOREVER
) -> tuple[Survey, Listing, Choice]:
    """A survey of the source; files decoded earlier are not decoded again. DataError only if waiting cannot help."""
    try:
        listing, choice, _ = _found(spec, state_dir, known, stop_at=stop_at, counting=True)
    except DataError as error:
        return unreadable(spec, str(error)), Listing(), Choice()
    return make_survey(spec, listing, choice, known), listing, choice


def read_samples(
    spec: SourceSpec, state_dir: Path, known: KnownTask, warn: Callable[[str], None] = lambda _: None
) -> Board:
    """The samples of a round; DataError if the source cannot be read, or its samples do not fit the task."""
    listing, choice, arrays = _found(spec, state_dir, known, stop_at=FOREVER, counting=False)
    ledger = Ledger(state_dir)
    parts = []
    for part in (choice.train, choice.held):
        usable, samples = _decoded(spec, part, known, arrays, ledger, listing)
        part[:] = usable
        parts.append(samples)
    ledger.save()
    survey = make_survey(spec, listing, choice, known)
    if survey.capped:
        warn(
            f"{spec.path}: {survey.capped} samples are left out, {survey.training} are trained on ([data] max_samples)"
        )
    return Board(train=parts[0], held=parts[1] if len(parts[1]) else None, survey=survey)


def _found(
    spec: SourceSpec, state_dir: Path, known: KnownTask | None, *, stop_at: float, counting: bool
) -> tuple[Listing, Choice, Arrays | None]:
    now, limit, arrays = time.time(), memory_limit(spec), None
    if spec.kind == "folder":
        if known is not None and (len(known.input_shape) != 3 or known.input_shape[0] not in (1, 3)):
            raise DataError(
                f"{spec.path}: pictures for a model of {known.input_shape}; it takes none of 1 or 3 channels"
            )
        listing = folder_entries(spec, Ledger(state_dir), now=now, stop_at=stop_at)
    elif spec.kind == "csv":
        listing = window_entries(spec, now=now, limit=limit)
        if known is not None:
            _set_misfits_aside(listing, known)
    else:
        from edge_agent.samples.arrays import array_source, labels_alone, stored_shape

        if counting and spec.kind == "npz" and not spec.validation and spec.keep != "reservoir":
            listing, shape = labels_alone(spec), stored_shape(spec)
        else:
            arrays = array_source(spec, limit)
            listing, shape = arrays.listing(), arrays.x.shape
        if known is not None and shape[1:] != known.input_shape:
            raise DataError(f"{spec.path}: samples of {shape[1:]} for a model of {known.input_shape}")
    size = FLOAT_BYTES * math.prod(known.input_shape) if known is not None else 1
    fits = max(limit // size, 1) if spec.kind == "folder" else len(listing.entries)
    return listing, choose(listing.entries, spec, known, now=now, fits=fits), arrays


def _set_misfits_aside(listing: Listing, known: KnownTask) -> None:
    """Reject windows whose size is not that of the model, with one message per file."""
    size = math.prod(known.input_shape)
    for entry in listing.entries:
        if len(entry.place) != size:
            text = f"windows of {len(entry.place)} values for a model of {known.input_shape}; check columns and window"
            listing.rejected[entry.name.rpartition(", row ")[0]] = text
    listing.entries = [entry for entry in listing.entries if len(entry.place) == size]


def _decoded(
    spec: SourceSpec,
    part: Sequence[Entry],
    known: KnownTask,
    arrays: Arrays | None,
    ledger: Ledger,
    listing: Listing,
) -> tuple[list[Entry], Samples]:
    """The entries that could be decoded, and their samples."""
    import numpy as np

    from models.samples import Samples

    if arrays is not None:
        x = _rows(spec, arrays, [entry.place for entry in part], known)
        usable = list(part)
    else:
        x = np.empty((len(part), *known.input_shape), np.float32)
        usable = []
        for entry in part:
            try:
                x[len(usable)] = _one(spec, entry, known)
                usable.append(entry)
            except DataError as error:
                reason = str(error).removeprefix(f"{entry.place}: ")
                listing.rejected[entry.name] = reason
                if spec.kind == "folder":
                    ledger.reject(entry.name, reason)
        x = x[: len(usable)]
    labels = [known.label(entry.label) for entry in usable]
    return usable, Samples(x, np.array(labels, np.int64))


def _rows(spec: SourceSpec, arrays: Arrays, rows: list[int], known: KnownTask) -> Any:
    """Rows of arrays as inputs. Floats of an `.npz` are used as stored; the task's mean comes before the file's."""
    import numpy as np

    from models.normalization import normalize
    from models.samples import as_inputs

    x = arrays.x if len(rows) == len(arrays.x) else arrays.x[rows]
    told = known.task is not None and bool(known.task.mean)
    if x.dtype == np.uint8 and not told:
        return as_inputs(spec.path, x, arrays.mean, arrays.std)
    if not told or x.dtype.kind == "i" or (spec.kind == "npz" and x.dtype.kind == "f"):
        return as_inputs(spec.path, x, None, None)
    assert known.task is not None
    return as_inputs(spec.path, normalize(x, known.task.mean, known.task.std), None, None)


def _one(spec: SourceSpec, entry: Entry, known: KnownTask) -> Any:
    """One picture or window as an input."""
    import numpy as np

    from models.normalization import normalize, told_by

    shape = known.input_shape
    if spec.kind == "folder":
        from models.sources.images import decode_picture

        stored: Any = decode_picture(entry.place, (shape[2], shape[1]), grey=shape[0] == 1)
    else:
        stored = np.frombuffer(entry.place, np.float32).reshape(shape)
    told = told_by(known.task, of_bytes=spec.kind == "folder")
    if told is None:
        return stored
    x = normalize(stored, *told, axis=0)
    if not np.isfinite(x).all():
        raise DataError("not finite after normalisation; check [task] mean and std")
    return x


def array_rows(spec: SourceSpec) -> Any:
    """x of an `.npz` or a loader, as stored."""
    from edge_agent.samples.arrays import array_source

    return array_source(spec, memory_limit(spec)).x
