"""The settings of `[data]` as they are sent to helpers and children."""

from __future__ import annotations

from pathlib import Path

import msgspec

from edge_agent.config import DataConfig

__all__ = ["LEDGER", "TASK", "Asked", "SourceSpec", "spec_of"]

#: Files of the state folder: what is known of the files of samples, and the fleet's task.
LEDGER, TASK = "samples.json", "task.json"


class SourceSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A source of samples and its limits; the keys are those of `DataConfig`."""

    path: str
    kind: str = "npz"
    labels: str = "labels.csv"
    columns: tuple[str, ...] = ()
    label_column: str | None = None
    window: int | None = None
    stride: int | None = None
    loader: str | None = None
    min_samples: int = 1
    max_samples: int | None = None
    max_per_class: int | None = None
    keep: str = "newest"
    max_age_s: float | None = None
    validation: float = 0.0
    memory_mb: int | None = None  # of the training child


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The request to a helper: edge_agent/samples/helper.py."""

    spec: SourceSpec
    state_dir: str
    seconds: float  # after which files that are new are left for the next time


def spec_of(data: DataConfig, memory_mb: int | None = None) -> SourceSpec:
    """The source of `[data]`; `memory_mb` is that of [train]."""
    told = {name: getattr(data, name) for name in SourceSpec.__struct_fields__ if hasattr(data, name)}
    return SourceSpec(
        **{**told, "path": str(Path(data.path).resolve()), "min_samples": data.least, "memory_mb": memory_mb}
    )
