"""Executes a sweep: checks every run, executes the missing ones, writes means over seeds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.files import write_atomic
from core.versions import versions
from fleet.data import load
from fleet.jobs import Progress
from fleet.simulation.settings.layers import about
from fleet.sweep import table
from fleet.sweep.grid import Sweep
from fleet.sweep.runner import Planned, make_folders, plan, run_missing

__all__ = ["Ended", "Runs", "open_sweep", "run_sweep"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """A checked sweep."""

    sweep: Sweep
    folder: Path
    planned: Sequence[Planned]

    @property
    def missing(self) -> list[Planned]:
        """Runs that are not complete."""
        return [run for run in self.planned if run.state() != "done"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The outcome of a sweep."""

    rows: Sequence[table.Row]
    facts: Mapping[str, Any]  # sweep.json
    failed: str = ""  # one line about failed runs; empty if none failed


def open_sweep(sweep: Sweep, folder: Path) -> Runs:
    """The runs of a sweep, with `folder` for what they write; datasets are there, or it is refused."""
    if "engine" not in (*sweep.shared, *sweep.keys):
        sweep.shared["engine"] = "inline"  # the runs themselves are parallel
    planned = plan(sweep, folder)
    for dataset, run in {run.config.dataset: run for run in planned}.items():
        with sweep.layer(run.point).located(), about("dataset"):
            load(dataset)
    return Runs(sweep=sweep, folder=folder, planned=planned)


def run_sweep(
    runs: Runs,
    *,
    jobs: int,
    force: bool = False,
    show: Callable[[Progress], None],
    here: Callable[[Planned], None] | None = None,
) -> Ended:
    """Execute the missing runs, `jobs` at a time; the tables are written even if the sweep is interrupted.

    With `here`, which runs one, they are executed by this process, one after another.
    """
    make_folders(runs.folder)
    missing = len(runs.missing)
    try:
        failed = run_missing(runs.planned, jobs=jobs, force=force, show=show, here=here)
    finally:
        rows, facts = _write_tables(runs)
    return Ended(rows=rows, facts=facts, failed=_failed_text(failed, missing, runs.planned))


def _failed_text(failed: Mapping[str, str], missing: int, planned: Sequence[Planned]) -> str:
    if not failed:
        return ""
    name, reason = next(iter(failed.items()))
    log = next(run.log for run in planned if run.name == name)
    return f"{len(failed)} of {missing} runs failed; {name}: {reason} ({log})"


def _write_tables(runs: Runs) -> tuple[list[table.Row], dict[str, Any]]:
    """Write `sweep.json`, `sweep.csv` and `runs.csv` of the completed runs."""
    measured = table.measure(runs.planned)
    rows, done = table.rows(measured), {run.name for run in measured}
    facts = {
        "keys": list(runs.sweep.keys),
        "rows": [row.to_json() for row in rows],
        "runs": [
            {"run": run.name, "point": run.point, "metrics": run.metrics, **({"lost": run.lost} if run.lost else {})}
            for run in measured
        ],
        "missing": [run.name for run in runs.planned if run.name not in done],
        "versions": versions(),
    }
    write_atomic(runs.folder / "sweep.json", json.dumps(facts, indent=1) + "\n")
    write_atomic(runs.folder / "sweep.csv", table.rows_csv(rows))
    write_atomic(runs.folder / "runs.csv", table.runs_csv(measured))
    return rows, facts
