"""What trackers are given: the settings of a run, and one record of figures for every round.

Metrics are named `KIND/OF`, such as `accuracy/cnn.w1` or `bytes/up`: a prototype is written with a dot, because neither
TensorBoard nor older MLflow servers take a colon. Those of one kind are drawn side by side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["RoundRecord", "TrackedRun", "flat", "of_prototype"]

#: Of a prototype in a round, as far as the run knows them.
PER_PROTOTYPE = (
    "accuracy",  # of the model as boards run it
    "accuracy_float",  # with full-precision weights
    "loss",
    "train_loss",
    "average_accuracy",
    "ensemble_accuracy",
    "distill_steps",
    "device_accuracy",
    "own_accuracy",  # of the devices' own models on their own slices: mean, worst, best
    "own_worst",
    "own_best",
    "devices",
    "bytes_up",
    "bytes_down",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedRun:
    """A simulation, or a fleet that is served."""

    name: str
    settings: Mapping[str, Any]  # may hold tables and lists


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRecord:
    """The figures of one round; those that are not finite are left out."""

    round: int
    time: float  # seconds since 1970
    metrics: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        finite = {name: float(value) for name, value in self.metrics.items() if math.isfinite(value)}
        object.__setattr__(self, "metrics", finite)


def of_prototype(prototype: str, figures: Mapping[str, Any]) -> dict[str, float]:
    """The metrics of one prototype from its figures, of which None are unknown.

    >>> of_prototype("cnn:w1", {"accuracy": 0.5, "loss": None, "quality": 1.0})
    {'accuracy/cnn.w1': 0.5}
    """
    name = prototype.replace(":", ".")
    return {f"{kind}/{name}": figures[kind] for kind in PER_PROTOTYPE if figures.get(kind) is not None}


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str | int | float | bool]:
    """Settings as one table: tables by dotted names, lists joined by commas; what is not set is left out.

    >>> flat({"lr": 0.1, "training": {"epochs": 2, "clip": None}, "names": ["cnn:w1", "mlp:fp32"]})
    {'lr': 0.1, 'training.epochs': 2, 'names': 'cnn:w1,mlp:fp32'}
    """
    found: dict[str, str | int | float | bool] = {}
    for key, value in settings.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found |= flat(value, f"{name}.")
        elif isinstance(value, list | tuple):
            found[name] = ",".join(map(str, value))
        elif isinstance(value, str | int | float):
            found[name] = value
        elif value is not None:
            found[name] = str(value)
    return found
