"""`edgestill sweep`: many simulations, and their means."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import EdgestillError
from edgestill.cli.jobs_display import JobsDisplay
from edgestill.cli.output import out, print_json, print_table

if TYPE_CHECKING:
    from fleet.sweep.grid import Sweep
    from fleet.sweep.runner import Planned
    from fleet.sweep.table import Row

__all__ = ["sweep"]


def sweep(
    file: Annotated[Path, typer.Argument(help="The sweep: a TOML file with [simulate] and [grid] (docs/reports.md).")],
    out_dir: Annotated[
        Path | None,
        typer.Option("--out", help="Folder of the runs and the tables; made if missing [named as the file, here]."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Runs side by side, of one thread each [the number of cores].")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace runs of other settings in --out.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, list the runs, run nothing.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print sweep.json to stdout.")] = False,
) -> None:
    """Run a grid of simulations side by side, and tell means and standard deviations over the seeds.

    Everything is checked before anything runs. Runs that are done are kept: called again, an interrupted sweep goes
    on. Tables are in sweep.json, sweep.csv (a row per point) and runs.csv (a row per run).

    Example:  edgestill sweep sweep.toml --out sweep --jobs 4
    """
    from fleet.data import load
    from fleet.partition import uses_alpha
    from fleet.sweep.grid import read_sweep
    from fleet.sweep.runner import make_folders, plan, run_missing

    found = read_sweep(file)
    out_dir = Path(file.stem) if out_dir is None else out_dir
    if "engine" not in (*found.shared, *found.keys):
        found.shared["engine"] = "inline"  # runs are side by side already
    runs = plan(found, out_dir)
    for dataset in dict.fromkeys(run.config.dataset for run in runs):
        load(dataset)
    for name in dict.fromkeys(run.config.partition for run in runs):
        uses_alpha(name)  # refuses one that there is not
    if dry_run:
        _list(runs, as_json=as_json)
        return
    make_folders(out_dir)
    missing = sum(run.state() != "done" for run in runs)
    with JobsDisplay(missing, quiet=quiet or as_json) as show:
        try:
            failed = run_missing(runs, jobs=jobs or os.cpu_count() or 1, force=force, show=show)
        finally:
            rows, facts = _write(found, runs, out_dir)
    if as_json:
        print_json(facts)
    else:
        _print(rows, found.keys)
        for run in facts["runs"]:
            if "lost" in run:
                out.print(f"{run['run']}: {run['lost']}", markup=False, soft_wrap=True)
        out.print(f"\nwrote {out_dir / 'sweep.json'}, sweep.csv and runs.csv", markup=False, soft_wrap=True)
    if failed:
        name, reason = next(iter(failed.items()))
        log = next(run.log for run in runs if run.name == name)
        raise EdgestillError(f"{len(failed)} of {missing} runs failed; {name}: {reason} ({log})")


def _list(runs: list[Planned], *, as_json: bool) -> None:
    if as_json:
        print_json([{"run": run.name, "state": run.state(), "flags": list(run.flags)} for run in runs])
    else:
        print_table("", ["run", "state"], [[run.name, run.state()] for run in runs])


def _write(found: Sweep, runs: list[Planned], folder: Path) -> tuple[list[Row], dict[str, Any]]:
    """The tables of what is there, as files."""
    import json

    from core.files import write_atomic
    from core.versions import versions
    from fleet.sweep import table

    measured = table.measure(runs)
    rows = table.rows(measured)
    facts = {
        "keys": list(found.keys),
        "rows": [row.to_json() for row in rows],
        "runs": [
            {"run": run.name, "point": run.point, "metrics": run.metrics, **({"lost": run.lost} if run.lost else {})}
            for run in measured
        ],
        "missing": [run.name for run in runs if run.name not in {m.name for m in measured}],
        "versions": versions(),
    }
    write_atomic(folder / "sweep.json", json.dumps(facts, indent=1) + "\n")
    write_atomic(folder / "sweep.csv", table.rows_csv(rows))
    write_atomic(folder / "runs.csv", table.runs_csv(measured))
    return rows, facts


def _print(rows: list[Row], keys: tuple[str, ...]) -> None:
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
