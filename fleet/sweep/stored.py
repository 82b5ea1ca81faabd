"""A sweep's folder as a report reads it: its runs, grouped by point; the runs of a group differ only in the seed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from core.errors import DataError
from core.files import read_regular
from fleet.report.facts import RunFacts, read_facts
from fleet.sweep.grid import SEED, Point

__all__ = ["FILE", "Group", "StoredSweep", "is_sweep", "read_stored"]

FILE = "sweep.json"
LARGEST = 64_000_000  # bytes of sweep.json


@dataclass(frozen=True, slots=True)
class Group:
    """One point of the grid without the seed."""

    point: Point
    runs: Sequence[RunFacts]
    points: Sequence[Point]  # of the runs, with the seed

    @property
    def name(self) -> str:
        """The keys that vary, such as `recipe=feddf, alpha=0.3`; a sweep over seeds alone has one group."""
        return ", ".join(f"{key}={value}" for key, value in self.point.items()) or "all seeds"


@dataclass(frozen=True, slots=True)
class StoredSweep:
    """A sweep with at least one completed run."""

    folder: Path
    groups: Sequence[Group]
    missing: Sequence[str]  # names of runs without a result

    @property
    def runs(self) -> list[RunFacts]:
        return [run for group in self.groups for run in group.runs]


class _Run(msgspec.Struct):
    run: str
    point: dict[str, Any]


class _File(msgspec.Struct):
    runs: list[_Run]
    missing: list[str] = []


def is_sweep(path: Path) -> bool:
    """Whether a path is the folder of a sweep, or its sweep.json."""
    return path.name == FILE or (path / FILE).is_file()


def read_stored(path: Path) -> StoredSweep:
    """Read every completed run of a sweep; `DataError` names the file that cannot be read."""
    folder = path.parent if path.name == FILE else path
    try:
        file = msgspec.convert(json.loads(read_regular(folder / FILE, LARGEST)), _File)
    except (ValueError, msgspec.ValidationError) as error:
        why = " ".join(str(error).split())
        raise DataError(f"{folder / FILE}: not that of a sweep ({why}); run `edgestill sweep` again") from error
    if not file.runs:
        raise DataError(f"{folder / FILE}: no run is complete yet; run `edgestill sweep` again")
    groups: dict[str, Group] = {}
    for run in file.runs:
        if Path(run.run).name != run.run:
            raise DataError(f"{folder / FILE}: run {run.run[:80]!r} is not the name of a folder in runs/")
        point = {key: value for key, value in run.point.items() if key != SEED}
        group = groups.setdefault(json.dumps(point), Group(point, [], []))
        facts = read_facts(folder / "runs" / run.run, run.run)
        groups[json.dumps(point)] = Group(point, [*group.runs, facts], [*group.points, run.point])
    return StoredSweep(folder, list(groups.values()), file.missing)
