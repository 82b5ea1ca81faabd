"""A user's loader: `module:function`, or the name of an entry point of group `edgestill.data`.

    def load(path):        # [data] path of agent.toml
        return x, y        # x (N, ...): float, or bytes 0 .. 255; y: N class names, or labels from 0; None: unlabeled

It runs in the agent's child processes, never in the agent, and may raise anything: a failure is reported in one line.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.entry_points import guarded
from core.errors import ConfigError, DataError, EdgestillError, did_you_mean

__all__ = ["GROUP", "find_loader", "load_own"]

GROUP = "edgestill.data"


def find_loader(name: str) -> Callable[[Path], Any]:
    """The function called `name`; ConfigError if there is none, or its module cannot be imported."""
    what = f"loader {name!r}"
    if ":" in name:
        return guarded(EntryPoint(name, name, GROUP), what)
    known = {point.name: point for point in entry_points(group=GROUP)}
    if name not in known:
        hint = did_you_mean(name, known) or (f"; installed: {' '.join(sorted(known))}" if known else "")
        raise ConfigError(f"{what}: no entry point {GROUP} is called so{hint}; or write module:function")
    return guarded(known[name], what)


def load_own(name: str, path: Path, limit: int) -> tuple[NDArray[Any], list[int | str | None]]:
    """x as bytes, float32 or int64, and a label, a class name or None for each; at most `limit` bytes."""
    try:
        found = find_loader(name)(path)
    except DataError:
        raise
    except EdgestillError as error:
        raise DataError(str(error)) from None
    where = f"loader {name!r}"
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise DataError(f"{where}: returned {type(found).__name__}; return the pair x, y")
    try:
        x = np.asarray(found[0])
        labels = [_label(label) for label in found[1]]
    except (ValueError, TypeError) as error:
        raise DataError(f"{where}: {error}; return arrays x, y") from None
    if x.ndim < 2 or len(x) != len(labels) or x.dtype.kind not in "iuf":
        raise DataError(f"{where}: x is {x.dtype} {x.shape} for {len(labels)} labels; give one input (numbers) a label")
    if x.size * max(x.itemsize, 4) > limit:
        raise DataError(f"{where}: x takes {x.nbytes:,} bytes, the limit is {limit:,}; return fewer samples")
    if x.dtype == np.uint8:
        return x, labels
    with np.errstate(over="ignore"):  # too large becomes infinity, which is refused by name
        return x.astype(np.float32 if x.dtype.kind == "f" else np.int64), labels


def _label(value: Any) -> int | str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 0:
        return int(value)
    raise ValueError(f"a label is {str(value)[:40]!r}; a label is a class name, a whole number from 0, or None")
