"""Samples stored as arrays: the `.npz` of models/samples.py, and the arrays that a user's loader returns.

A sample's hash is that of its stored bytes in x. Later rows are newer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_agent.samples.entries import Entry, Label, Listing, digest_bytes, printable
from edge_agent.samples.spec import SourceSpec
from models.npz import array_shape
from models.samples import load_labels, load_raw
from models.sources.loader import load_own

__all__ = ["Arrays", "array_source", "labels_alone", "stored_shape"]


@dataclass(frozen=True, slots=True)
class Arrays:
    """x as stored; mean and std of the file itself."""

    x: NDArray[Any]
    labels: Sequence[Label]
    mean: NDArray[Any] | None = None
    std: NDArray[Any] | None = None

    def listing(self) -> Listing:
        """An entry for each row, found by its number."""
        rows = np.ascontiguousarray(self.x)
        return Listing(
            [
                Entry(str(i), label, digest_bytes(memoryview(rows[i]).cast("B")), float(i), i)
                for i, label in enumerate(self.labels)
            ]
        )


def array_source(spec: SourceSpec, limit: int) -> Arrays:
    """The samples of kinds npz and python; at most `limit` bytes."""
    path = Path(spec.path)
    if spec.kind == "npz":
        x, y, mean, std = load_raw(path, limit=limit)
        return Arrays(x, y.tolist(), mean, std)
    assert spec.loader is not None
    x, labels = load_own(spec.loader, path, limit)
    return Arrays(x, [printable(label, 100) if isinstance(label, str) else label for label in labels])


def labels_alone(spec: SourceSpec) -> Listing:
    """The labels of an `.npz`, whose inputs are not read; there are no hashes, so nothing can be held out."""
    labels = load_labels(Path(spec.path)).tolist()
    return Listing([Entry(str(i), label, b"", float(i), i) for i, label in enumerate(labels)])


def stored_shape(spec: SourceSpec) -> tuple[int, ...]:
    """The shape that x of an `.npz` claims; it is not read."""
    return array_shape(Path(spec.path), "x")
