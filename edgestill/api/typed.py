"""Types of the API's arguments, for editors and type checkers: every setting by its name (docs/simulate.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

__all__ = ["SimulateSettings"]


class SimulateSettings(TypedDict, total=False):
    """The settings of a simulation; each may be left out, and None means its default."""

    dataset: Any  # a name, a path, or data: docs/api.md
    devices: int | str | None
    prototypes: Any  # names, or networks: docs/api.md
    partition: Any  # a name, or a function
    alpha: float | None
    option: Mapping[str, int | float | bool] | None
    latent: int | None
    rounds: int | None
    fraction: float | None
    seed: int | None
    compute: str | None
    engine: str | None
    workers: int | None
    batch_devices: int | str | None
    address: str | None
    score_every: int | None
    score_devices: str | None
    transport: str | None
    recipe: Any  # a name, or a Recipe
    fusion: Mapping[str, Any] | None
    source: str | Path | None
    source_size: int | None
    source_classes: Sequence[int] | str | None
    validation_size: int | None
    update: str | None
    count_epsilon: float | None
    count_bins: int | None
    attack: Any  # a text, or functions: docs/api.md
    processes: int | None
    objective: Any  # a function, or FILE.py:NAME
    train: Any  # a function, or FILE.py:NAME
    local_epochs: int | None
    local_steps: int | None
    lr: float | str | None
    momentum: float | None
    batch_size: int | None
    clip: float | None
    prox: float | None
    fast: str | None
    amp: str | None
    virtual_clock: bool | None
    deadline: float | None
    quorum: float | None
    availability: float | None
    dropout: float | None
    trace: str | Path | None
    hardware: str | Path | None
    buffer: int | None
    concurrency: int | None
    staleness: float | None
    max_staleness: int | None
    floats: str | None
    track: Sequence[str] | str | None
