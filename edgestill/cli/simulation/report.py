"""`edgestill report`: runs as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from core.errors import ConfigError
from edgestill.cli.output import out, print_json, print_table

__all__ = ["report"]


def report(
    runs: Annotated[list[Path], typer.Argument(help="--out folders of simulations, or their run.json files.")],
    out_file: Annotated[
        Path | None,
        typer.Option("--out", help="The HTML file [RUN/report.html; report.html here for several runs]."),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(help="Accuracy in %, for rounds and bytes to target [what half of all prototypes reach]."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report's numbers as JSON.")] = False,
) -> None:
    """Make a page of one run, or of several side by side: one HTML file that needs no network.

    It shows accuracies by round, rounds and bytes to a target, who has which samples, how each device was judged,
    where the time went, and every setting. Each figure is a PNG file beside it too.

    Example:  edgestill report run-fedavg run-feddf --target 90 --out compared.html
    """
    from core.files import named_file
    from fleet.report.facts import read_runs
    from fleet.report.summary import default_target, run_row
    from fleet.report.write import MOST_RUNS, check_out, write_report

    if target is not None and not 0 < target <= 100:
        raise ConfigError(f"--target {target:g}: give an accuracy in % above 0 and up to 100, such as 90")
    if len(runs) > MOST_RUNS:
        raise ConfigError(f"{len(runs)} runs; give at most {MOST_RUNS}, or see the table of 'edgestill sweep'")
    if out_file is not None:
        check_out(out_file)
    found = read_runs(runs)
    out_file = _where(runs) if out_file is None else out_file
    goal = default_target(found) if target is None else target / 100
    files = write_report(found, named_file(out_file), target=goal)
    rows = [run_row(run, goal) for run in found]
    if as_json:
        print_json({"target": goal, "runs": rows, "files": [str(file) for file in files]})
        return
    _print(rows, goal)
    out.print(f"\nwrote {files[0]} and {len(files) - 1} figures beside it", markup=False, soft_wrap=True)


def _where(runs: list[Path]) -> Path:
    """In the folder of the run, or here for several."""
    if len(runs) > 1:
        return Path("report.html")
    return (runs[0] if runs[0].is_dir() else runs[0].parent) / "report.html"


def _print(rows: list[dict[str, Any]], target: float) -> None:
    table = [
        [
            row["run"],
            p["prototype"],
            f"{100 * (p['accuracy'] if p['device_accuracy'] is None else p['device_accuracy']):.1f} %",
            f"{100 * p['best']:.1f} %",
            p["rounds_to_target"] or "not reached",
        ]
        for row in rows
        for p in row["prototypes"]
    ]
    print_table("", ["run", "prototype", "accuracy", "best", f"{100 * target:g} % in round"], table)
