"""A user's own partition: a function (labels, devices, ...) that returns the rows of every device."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from core.entry_points import reported
from core.errors import ConfigError
from fleet.partition.common import Indices

__all__ = ["own_partition"]

#: What a function may take in addition to labels and devices, each by its name.
MORE = ("alpha", "seed")


def own_partition(name: str, function: Callable[..., Any]) -> Callable[..., list[Indices]]:
    """The function in the form of the built-in ones, with the arguments that it takes; its result is checked."""
    takes = inspect.signature(function).parameters
    call = reported(function, f"partition {name}")

    def split(labels: Any, devices: int, *, seed: int = 0, alpha: float = 1.0, **options: Any) -> list[Indices]:
        given = {key: value for key, value in {"alpha": alpha, "seed": seed}.items() if key in takes}
        return _checked(name, call(labels, devices, **given, **options), devices, len(labels))

    options = [p.replace(kind=p.KEYWORD_ONLY) for p in list(takes.values())[2:] if p.name not in MORE]
    named = list(inspect.signature(split).parameters.values())[:3]
    alpha = [p for p in inspect.signature(split).parameters.values() if p.name == "alpha" and "alpha" in takes]
    split.__signature__ = inspect.Signature([*named, *alpha, *options])  # type: ignore[attr-defined]
    return split


def _checked(name: str, parts: Any, devices: int, samples: int) -> list[Indices]:
    try:
        rows = [np.asarray(part).reshape(-1) for part in parts]
    except (TypeError, ValueError) as error:
        raise ConfigError(f"partition {name}: gave no list of rows ({error}); return one array per device") from None
    if len(rows) != devices:
        raise ConfigError(
            f"partition {name}: gave {len(rows)} parts for {devices} devices; return one array per device"
        )
    whole = np.concatenate(rows) if rows else np.empty(0, np.int64)
    if whole.dtype.kind not in "iu" and len(whole):
        raise ConfigError(f"partition {name}: gave {whole.dtype}; return rows of the training set, integers")
    if len(whole) and not 0 <= whole.min() <= whole.max() < samples:
        raise ConfigError(f"partition {name}: rows from {whole.min()} to {whole.max()}, there are 0 to {samples - 1}")
    if len(np.unique(whole)) < len(whole):
        raise ConfigError(f"partition {name}: a sample goes to two devices; give each row once")
    return [part.astype(np.int64) for part in rows]
