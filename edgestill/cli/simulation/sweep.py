"""`edgestill sweep`: runs a grid of simulations and averages over seeds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import EdgestillError
from edgestill.cli.jobs_display import JobsDisplay
from edgestill.cli.output import out, print_json, print_table

if TYPE_CHECKING:
    from fleet.sweep.runner import Planned
    from fleet.sweep.table import Row

__all__ = ["sweep"]


File = Annotated[Path, typer.Argument(help="The sweep: a TOML file with [simulate] and [grid] (docs/reports.md).")]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="Folder of the runs and the tables; created if missing [named after the file, in the current folder].",
    ),
]
Jobs = Annotated[
    int | None, typer.Option(min=1, max=1024, help="Parallel runs, each with one thread [the number of cores].")
]
Force = Annotated[bool, typer.Option("--force", help="Replace runs with other settings in --out.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, list the runs, run nothing.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print sweep.json to stdout.")]


def sweep(
    file: File,
    out_dir: Out = None,
    jobs: Jobs = None,
    force: Force = False,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run a grid of simulations in parallel, and report means and standard deviations over the seeds.

    All settings are checked before the first run. Completed runs are kept: called again, an interrupted sweep
    continues. Tables are in sweep.json, sweep.csv (a row per point) and runs.csv (a row per run).

    Example:  edgestill sweep sweep.toml --out sweep --jobs 4
    """
    from fleet.sweep.grid import read_sweep
    from fleet.sweep.run import open_sweep, run_sweep

    out_dir = Path(file.stem) if out_dir is None else out_dir
    runs = open_sweep(read_sweep(file), out_dir)
    if dry_run:
        _list(runs.planned, as_json=as_json)
        return
    with JobsDisplay(len(runs.missing), quiet=quiet or as_json) as show:
        ended = run_sweep(runs, jobs=jobs or os.cpu_count() or 1, force=force, show=show)
    if as_json:
        print_json(ended.facts)
    else:
        _print(ended.rows, runs.sweep.keys)
        for run in ended.facts["runs"]:
            if "lost" in run:
                out.print(f"{run['run']}: {run['lost']}", markup=False, soft_wrap=True)
        out.print(f"\nwrote {out_dir / 'sweep.json'}, sweep.csv and runs.csv", markup=False, soft_wrap=True)
    if ended.failed:
        raise EdgestillError(ended.failed)


def _list(runs: Sequence[Planned], *, as_json: bool) -> None:
    if as_json:
        print_json([{"run": run.name, "state": run.state(), "flags": list(run.flags)} for run in runs])
    else:
        print_table("", ["run", "state"], [[run.name, run.state()] for run in runs])


def _print(rows: Sequence[Row], keys: tuple[str, ...]) -> None:
    """Accuracies in %, mean ± standard deviation."""
    shown = [key for key in keys if key != "seed"]
    metrics = list(dict.fromkeys(name for row in rows for name in row.mean))
    scores = [name for name in metrics if name not in ("bytes_up", "bytes_down", "seconds")]
    lines = [
        [
            *(row.point[key] for key in shown),
            len(row.seeds),
            *(_percent(row.mean.get(name), row.std.get(name)) for name in scores),
            f"{row.mean['bytes_up'] / 1e6:.2f} MB",
            f"{row.mean['seconds']:.0f} s",
        ]
        for row in rows
    ]
    print_table("accuracy after the last round, %", [*shown, "runs", *scores, "up", "time"], lines, whole=True)


def _percent(mean: float | None, std: float | None) -> str:
    if mean is None:
        return ""
    return f"{100 * mean:.1f}" if std is None else f"{100 * mean:.1f} ± {100 * std:.1f}"
