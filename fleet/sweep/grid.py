"""sweep.toml: the settings that all runs share, and the grid of settings that vary.

    [simulate]                        # any setting of `edgestill simulate`
    devices = 12
    local-epochs = 2                  # or local_epochs
    fusion = { steps = 50 }           # repeatable flags are tables

    [grid]                            # lists: every combination is a run
    recipe = ["fedavg", "feddf"]
    alpha = [0.1, 1.0]
    seed = [0, 1, 2]
    fusion.lr = [1e-3, 3e-3]

Runs are ordered by seed, so that every point of the grid has a first result early.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.config_keys import brief, read_toml, sub_table
from core.errors import ConfigError, did_you_mean
from core.settings import checked
from fleet.simulation.settings.layers import Layer, overlay
from fleet.simulation.settings.table import find_setting, places_in, scalar, written

__all__ = ["MOST_RUNS", "SEED", "Point", "Settings", "Sweep", "make_sweep", "names", "read_sweep", "run_name"]

MOST_RUNS = 10_000
SEED = "seed"
LONGEST = 100

Settings = dict[str, Any]  # as users write them (fleet/simulation/settings/table.py)
Point = dict[str, Any]  # coordinates in the grid: `fusion.lr` for a field of a table


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The runs of a grid."""

    keys: tuple[str, ...]  # of the grid, in the order of the file
    points: tuple[Point, ...]
    shared: Settings
    places: Mapping[str, str] = field(default_factory=dict)  # of the keys of both tables

    def settings(self, point: Point) -> Settings:
        """The settings of the run at `point`."""
        return dict(self.layer(point).values)

    def layer(self, point: Point) -> Layer:
        """The same, with the places; the point comes before what all runs share."""
        own: Settings = {}
        for key, value in point.items():
            name, _, part = key.partition(".")
            if part:
                own.setdefault(name, dict(self.shared.get(name, {})))[part] = value
            else:
                own[name] = value
        shared = {key: dict(value) if isinstance(value, dict) else value for key, value in self.shared.items()}
        return Layer(overlay(Layer(shared), Layer(own)).values, self.places)


def read_sweep(path: Path) -> Sweep:
    """Read a sweep file; its keys and the types of its values are checked."""
    file = read_toml(path)
    for name in file:
        if name not in ("simulate", "grid"):
            hint = did_you_mean(name, ("simulate", "grid")) or "; known: [simulate] [grid]"
            raise ConfigError(f"{path}: unknown table {name!r}{hint}")
    tables = sub_table(file, "simulate", str(path)), sub_table(file, "grid", str(path))
    return make_sweep(*tables, where=str(path), places=(f"{path} [simulate]", f"{path} [grid]"))


def make_sweep(simulate: Mapping[str, Any], grid: Mapping[str, Any], *, where: str, places: tuple[str, str]) -> Sweep:
    """The sweep of two tables; `where` and `places`, of the one and the other, start error messages."""
    shared, axes = written(simulate, places[0]), _axes(grid, places[1])
    for key in axes:
        if key in shared or key.partition(".")[2] in _table(shared, key):
            raise ConfigError(f"{where}: {key!r} is in {_short(places[0])} and in {_short(places[1])}; give it once")
    count = 1
    for values in axes.values():
        count *= len(values)
    if count > MOST_RUNS:
        raise ConfigError(f"{places[1]}: {count:,} runs; give at most {MOST_RUNS:,}")
    outer = sorted(axes, key=lambda key: key != SEED)
    points = [dict(zip(outer, values, strict=True)) for values in itertools.product(*(axes[key] for key in outer))]
    return Sweep(
        keys=tuple(axes),
        points=tuple({key: point[key] for key in axes} for point in points),
        shared=shared,
        places={**places_in(simulate, places[0]), **places_in(grid, places[1])},
    )


def _short(place: str) -> str:
    """
    >>> _short("a.toml [grid]"), _short("sweep(): grid")
    ('[grid]', 'grid')
    """
    return place.rpartition(" ")[2]


def _table(shared: Settings, key: str) -> Mapping[str, Any]:
    table = shared.get(key.partition(".")[0]) if "." in key else None
    return table if isinstance(table, dict) else {}


def _axes(table: Mapping[str, Any], place: str) -> dict[str, list[Any]]:
    axes: dict[str, list[Any]] = {}
    for key, values in table.items():
        setting, label = find_setting(key, place), f"{place}: {key!r}"
        if setting.kind is not dict:
            axes[setting.name] = [checked(setting, value, label) for value in _several(values, label)]
        elif isinstance(values, dict):
            for field, several in values.items():
                inside = f"{place}: '{key}.{field}'"
                axes[f"{setting.name}.{field}"] = [scalar(value, inside) for value in _several(several, inside)]
        else:
            raise ConfigError(f"{place}: write {key!r} as {key}.NAME = [VALUE, ...]")
    return axes


def _several(values: Any, label: str) -> list[Any]:
    if not isinstance(values, list) or not values:
        raise ConfigError(f"{label} is {brief(values)}, expected a list of values, such as [0, 1]")
    plain = [brief(value, 1000) for value in values]
    if len(set(plain)) < len(plain):
        raise ConfigError(f"{label}: a value is given twice")
    return values


def run_name(point: Point) -> str:
    """The folder name of the run at `point`, unique per point.

    >>> run_name({"recipe": "feddf", "fusion.lr": 0.001, "seed": 0})
    'recipe=feddf,fusion.lr=0.001,seed=0'
    """
    whole = ",".join(f"{key}={value}" for key, value in point.items()) or "run"
    plain = re.sub(r"[^\w.,=+-]", "-", whole)[:LONGEST]
    return plain if plain == whole else f"{plain}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


def names(points: Sequence[Point]) -> dict[str, Point]:
    """All points by the names of their runs."""
    return {run_name(point): point for point in points}
