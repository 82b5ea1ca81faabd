"""`KIND:WHERE` of a user: the trackers by kind, and users' own by entry point. A tracker is imported when it is opened.

    tensorboard:DIR    event files in DIR/NAME of the run                    extra: tensorboard
    mlflow:URI         a run in the experiment `edgestill`, or in that of    extra: mlflow
                       MLFLOW_EXPERIMENT_NAME: http://host:5000, sqlite:///mlflow.db

A user's package declares its tracker in `pyproject.toml`, by its kind:

    [project.entry-points."edgestill.trackers"]
    mine = "mypackage.tracking:open_mine"

    open_mine(where, run, token) -> Tracker     `token` is that of the tracker which followed this run before, or None
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import NamedTuple, Protocol

from aggregator.tracking.records import RoundRecord, TrackedRun
from core.entry_points import guarded, origin
from core.errors import ConfigError, did_you_mean

__all__ = ["GROUP", "Target", "Tracker", "parse_targets"]

GROUP = "edgestill.trackers"
_HERE = "aggregator.tracking"


class Tracker(Protocol):
    """An open tracker; it is used by one thread, and may raise what it likes."""

    token: str  # by which the same run is continued

    def log(self, record: RoundRecord) -> None:
        """Write one round; on return it will not be lost."""

    def close(self, *, complete: bool) -> None:
        """No more rounds come from this process; `complete` if the run has all of its rounds."""


OpenTracker = Callable[[str, TrackedRun, str | None], Tracker]


class BuiltIn(NamedTuple):
    """A tracker of ours."""

    where: str  # module:function
    needs: str  # a package of its extra
    example: str


BUILT_IN = {
    "tensorboard": BuiltIn(f"{_HERE}.tensorboard:open_tensorboard", "tensorboard", "tensorboard:runs"),
    "mlflow": BuiltIn(f"{_HERE}.mlflow:open_mlflow", "mlflow", "mlflow:http://127.0.0.1:5000"),
}


@dataclass(frozen=True, slots=True)
class Target:
    """A tracker as it was asked for."""

    kind: str
    where: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.where}"

    def open(self, run: TrackedRun, token: str | None) -> Tracker:
        """Connect to it, or open its files; imports it."""
        if (built_in := BUILT_IN.get(self.kind)) is not None:
            module, _, function = built_in.where.partition(":")
            open_tracker: OpenTracker = getattr(importlib.import_module(module), function)
        else:
            open_tracker = guarded(_points(self.kind)[0], f"tracker {self.kind}")
        return open_tracker(self.where, run, token)


def parse_targets(texts: Sequence[str], *, installed: bool = False) -> tuple[Target, ...]:
    """The targets of these texts, in their order; with `installed`, their packages have to be there."""
    found = tuple(map(_parse, texts))
    for target in found:
        if found.count(target) > 1:
            raise ConfigError(f"tracker {str(target)!r} is given twice; give it once")
        if installed:
            _check_installed(target)
    return found


def _parse(text: str) -> Target:
    kind, _, where = text.partition(":")
    built_in = BUILT_IN.get(kind)
    if built_in is None and not _points(kind):
        known = (*BUILT_IN, *sorted({point.name for point in entry_points(group=GROUP)}))
        hint = did_you_mean(kind, known) or f"; known: {' '.join(known)}"
        raise ConfigError(f"no tracker {kind[:80]!r}{hint}")
    points = _points(kind)
    if points and built_in is not None:
        raise ConfigError(f"{origin(points[0])}: {kind} is a built-in tracker; rename the entry point")
    if len(points) > 1:
        raise ConfigError(f"tracker {kind} comes from {' and '.join(map(origin, points))}; uninstall one")
    if built_in is not None and (not where or not where.isprintable()):
        raise ConfigError(f"tracker {text[:80]!r}: where is missing; write it like {built_in.example}")
    return Target(kind, where)


def _points(kind: str) -> list[EntryPoint]:
    return list(entry_points(group=GROUP, name=kind))


def _check_installed(target: Target) -> None:
    built_in = BUILT_IN.get(target.kind)
    if built_in is None:
        return
    if find_spec(built_in.needs) is None:
        raise ConfigError(f"tracker {target.kind} needs {built_in.needs}; run: pip install 'edgestill[{target.kind}]'")
    database = target.kind == "mlflow" and not target.where.startswith(("http:", "https:", "databricks"))
    if database and (find_spec("sqlalchemy") is None or find_spec("alembic") is None):
        raise ConfigError(
            f"tracker {str(target)!r} is a database, which the client alone cannot open; run: pip install mlflow"
        )
