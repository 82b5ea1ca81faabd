"""`sweep`: a grid of simulations, as by `edgestill sweep`, with means and standard deviations over seeds."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import ConfigError, EdgestillError
from edgestill.api.run import Run, frame, load_run
from edgestill.api.settings import layer_of
from fleet.simulation.config import DEFAULT_ENGINE
from fleet.simulation.own_code.named import lent_only
from fleet.simulation.run import run_simulation
from fleet.sweep.grid import SEED, make_sweep
from fleet.sweep.run import Ended, Runs, open_sweep, run_sweep
from fleet.sweep.runner import Planned
from fleet.sweep.table import Row

if TYPE_CHECKING:
    import pandas as pd

    from edgestill.api.typed import SimulateSettings

__all__ = ["SweepResult", "sweep"]


def sweep(
    grid: Mapping[str, Iterable[Any] | Mapping[str, Iterable[Any]]],
    *,
    base: SimulateSettings | None = None,
    out: str | Path | None = None,
    jobs: int | None = None,
    force: bool = False,
    quiet: bool = False,
) -> SweepResult:
    """Simulate every combination of the values in `grid`, in parallel; `base` are the settings that all runs share.

    result = sweep({"recipe": ["fedavg", "feddf"], "seed": [0, 1, 2]}, base={"dataset": "mnist", "rounds": 30})

    A field of a table is written `"fusion.lr": [1e-3, 3e-3]`. `out` keeps the runs: called again, an interrupted sweep
    continues; without it they are in a temporary folder until the result is deleted. All settings are checked first.
    Runs with code of this process (`prototypes=[MyNet]`) are executed here, one after another, each on all cores.
    """
    from edgestill.cli.jobs_display import JobsDisplay

    kept = None if out is not None else tempfile.TemporaryDirectory(prefix="edgestill-sweep-")
    folder = Path(out).expanduser() if out is not None else Path(kept.name if kept else "")
    shared = layer_of(base or {}, "sweep(): base").values
    made = make_sweep(shared, _axes(grid), where="sweep()", places=("sweep(): base", "sweep(): grid"))
    runs = open_sweep(made, folder)
    with JobsDisplay(len(runs.missing), quiet=quiet) as show:
        here = _run_here if any(lent_only(run.config.to_json()) for run in runs.planned) else None
        ended = run_sweep(runs, jobs=jobs or os.cpu_count() or 1, force=force, show=show, here=here)
    if ended.failed:
        raise EdgestillError(ended.failed)
    return SweepResult(runs, ended, kept)


def _run_here(run: Planned) -> None:
    """Run it in this process, which knows the user's own code, on all cores."""
    resumes = run.state() == "unfinished" and (run.folder / "checkpoint").is_dir()
    run_simulation(replace(run.config, engine=DEFAULT_ENGINE), run.folder, force=not resumes, resume=resumes)


def _axes(grid: Mapping[str, Any]) -> dict[str, Any]:
    """The grid as a file has it: lists, and a table for each table's fields."""
    axes: dict[str, Any] = {}
    for key, values in grid.items():
        name, _, field = key.partition(".")
        if isinstance(values, Mapping):
            axes.setdefault(name, {}).update({inner: _values(f"{key}.{inner}", v) for inner, v in values.items()})
        elif field:
            axes.setdefault(name, {})[field] = _values(key, values)
        else:
            axes[name] = [layer_of({name: value}, "sweep(): grid").values[name] for value in _values(key, values)]
    return axes


def _values(key: str, values: Any) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ConfigError(f"sweep(): grid: {key!r} is {values!r}, expected a list of values, such as [0, 1]")
    several = list(values)
    if any(value is None for value in several):
        raise ConfigError(f"sweep(): grid: {key!r} has None, which means the default; give the value itself")
    return several


class SweepResult:
    """The runs of a sweep and their means."""

    def __init__(self, runs: Runs, ended: Ended, kept: object = None) -> None:
        self._runs, self._ended, self._kept = runs, ended, kept
        self.out: Path = runs.folder

    def __repr__(self) -> str:
        return f"<SweepResult {' x '.join(self._runs.sweep.keys)}: {len(self._runs.planned)} runs>"

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row per point of the grid without its seed: means over the seeds, and `NAME std` for their deviations."""
        return [_row(row) for row in self._ended.rows]

    def summary(self) -> pd.DataFrame:
        """`rows` as a DataFrame; needs pandas."""
        return frame(self.rows)

    @cached_property
    def runs(self) -> list[Run]:
        """Every run, in the order of the seeds."""
        return [load_run(run.folder) for run in self._runs.planned]


def _row(row: Row) -> dict[str, Any]:
    spread = {name: pair for key in row.mean for name, pair in ((key, row.mean[key]), (f"{key} std", row.std[key]))}
    return {**{key: value for key, value in row.point.items() if key != SEED}, "runs": len(row.seeds), **spread}
