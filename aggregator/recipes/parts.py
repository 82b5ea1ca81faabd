"""Fusion parts by kind and name: the built-in table, and users' own by entry point. A part is imported on first use.

A user's package declares its part in `pyproject.toml`, under the kind and the name that recipes call it by:

    [project.entry-points."edgestill.fusion"]
    "weigh.mine" = "mypackage.parts:mine"

The kinds, and what a part of each is called with (`aggregator/fusion/types.py`):

    screen    (view) -> list[str | None]     why an update is left out, None where it stays
    weigh     (view) -> Sequence[float]      one weight >= 0 per update, not all zero
    average   (view, weights) -> State       the prototype's average
    teach     (logits (K, B, C)) -> (B, C)   what K teachers say together of B samples, as logits

The built-in names are reserved.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

from core.entry_points import load_function, origin
from core.errors import ConfigError, did_you_mean

__all__ = ["GROUP", "PARTS", "find_part", "part_names"]

GROUP = "edgestill.fusion"
Part = Callable[..., Any]
_HERE = "aggregator.fusion"
#: By kind and name: where the part is.
PARTS: Mapping[str, Mapping[str, str]] = {
    "screen": {
        "finite": f"{_HERE}.screens.outliers:finite",
        "drop-worst": f"{_HERE}.screens.outliers:drop_worst",
        "afa-blocked": f"{_HERE}.weights.afa:blocked",
        "fedmgda-blocked": f"{_HERE}.weights.fedmgda:blocked",
    },
    "weigh": {
        "examples": f"{_HERE}.weights.simple:examples",
        "uniform": f"{_HERE}.weights.simple:uniform",
        "median-score": f"{_HERE}.teachers.median_score:median_score",
        "trust": f"{_HERE}.weights.trust:trusted_examples",
        "multi-krum": f"{_HERE}.weights.krum:krum",
        "afa": f"{_HERE}.weights.afa:afa",
        "fedmgda": f"{_HERE}.weights.fedmgda:fedmgda",
    },
    "average": {
        "mean": f"{_HERE}.averages.mean:mean",
        "median": f"{_HERE}.averages.median:median",
        "matched": f"{_HERE}.averages.fedma:matched",
        "by-label": f"{_HERE}.averages.per_label:by_label",
    },
    "teach": {
        "mean-logits": f"{_HERE}.teachers.combine:mean_logits",
        "median-logits": f"{_HERE}.teachers.combine:median_logits",
        "mean-probabilities": f"{_HERE}.teachers.combine:mean_probabilities",
    },
}


def part_names(kind: str) -> tuple[str, ...]:
    """Every name that a part of this kind has: the built-in ones, then users'."""
    users = {point.name.partition(".")[2] for point in entry_points(group=GROUP) if point.name.startswith(f"{kind}.")}
    return (*PARTS[kind], *sorted(users - PARTS[kind].keys()))


@functools.cache  # looking through installed packages takes milliseconds
def find_part(kind: str, name: str) -> Part:
    """The part; `ConfigError` names those that there are."""
    built_in = PARTS[kind].get(name)
    points = tuple(entry_points(group=GROUP, name=f"{kind}.{name}"))
    if built_in is not None:
        if points:
            raise ConfigError(f"{origin(points[0])}: {kind}.{name} is a built-in part; rename the entry point")
        module, _, function = built_in.partition(":")
        part: Part = getattr(importlib.import_module(module), function)
        return part
    if not points:
        known = part_names(kind)
        hint = did_you_mean(name, known) or f"; known: {' '.join(known)}"
        raise ConfigError(f"no fusion part {kind}.{name}{hint}")
    if len(points) > 1:
        raise ConfigError(f"part {kind}.{name} comes from {' and '.join(map(origin, points))}; uninstall one")
    return load_function(points[0], f"part {points[0].name}")
