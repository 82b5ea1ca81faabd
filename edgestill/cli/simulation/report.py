"""`edgestill report`: an HTML report of one or more runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from core.errors import ConfigError
from edgestill.cli.output import err, out, print_json, print_table

__all__ = ["report"]


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(help="--out folders of simulations, or their run.json files; or the folder of one sweep."),
    ],
    out_file: Annotated[
        Path | None,
        typer.Option("--out", help="The HTML file [RUN/report.html; report.html here for several runs]."),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(
            help="Target accuracy in %, for rounds and bytes to target [an accuracy that half of all prototypes reach]."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report's figures as JSON.")] = False,
) -> None:
    """Write an HTML report of one run, or a comparison of several, as one self-contained file.

    It shows accuracies by round, rounds and bytes to a target, the partition, scores of devices, time by stage, and
    all settings. Each figure is also written as a PNG file. The report of a sweep has means and spreads over the
    seeds; all rounds are written beside it as rounds.csv and, with pyarrow, rounds.parquet.

    Example:  edgestill report run-fedavg run-feddf --target 90 --out compared.html
    """
    from core.files import named_file
    from fleet.report.facts import read_runs
    from fleet.report.summary import default_target, run_row
    from fleet.report.write import MOST_RUNS, check_out, write_report
    from fleet.results.run_file import has_personal_models
    from fleet.sweep.stored import is_sweep

    if any(is_sweep(path) for path in runs):
        _report_sweep(runs, out_file, target, as_json=as_json)
        return
    if target is not None and not 0 < target <= 100:
        raise ConfigError(f"--target {target:g}: give an accuracy in % above 0 and up to 100, such as 90")
    if len(runs) > MOST_RUNS:
        raise ConfigError(f"{len(runs)} runs; give at most {MOST_RUNS}, or see the table of 'edgestill sweep'")
    if out_file is not None:
        check_out(out_file)
    loaded = read_runs(runs)
    out_file = _where(runs) if out_file is None else out_file
    goal = default_target(loaded) if target is None else target / 100
    files = write_report(loaded, named_file(out_file), target=goal)
    rows = [run_row(run, goal) for run in loaded]
    if as_json:
        print_json({"target": goal, "runs": rows, "files": [str(file) for file in files]})
        return
    _print(rows, goal, personal=any(has_personal_models(run.config) for run in loaded))
    out.print(f"\nwrote {files[0]} and {len(files) - 1} figures", markup=False, soft_wrap=True)


def _report_sweep(paths: list[Path], out_file: Path | None, target: float | None, *, as_json: bool) -> None:
    from core.files import named_file
    from fleet.report.write import check_out
    from fleet.sweep.report import point_rows, write_sweep_report
    from fleet.sweep.rounds import NO_PARQUET
    from fleet.sweep.stored import read_stored

    if len(paths) > 1:
        raise ConfigError(f"{len(paths)} paths, one of them a sweep; give one sweep alone, or runs (SWEEP/runs/NAME)")
    if target is not None:
        raise ConfigError("--target is for runs; give it with SWEEP/runs/NAME, or leave it out")
    sweep = read_stored(paths[0])
    if out_file is None:
        out_file = sweep.folder / "report.html"
    check_out(out_file)
    files = write_sweep_report(sweep, named_file(out_file))
    rows = point_rows(sweep.groups)
    if as_json:
        print_json({"rows": rows, "missing": list(sweep.missing), "files": [str(file) for file in files]})
        return
    names = list(dict.fromkeys(name for row in rows for name in row["metrics"]))
    table = [
        [group.name, row["runs"], *(_mean_and_spread(row["metrics"].get(name)) for name in names)]
        for group, row in zip(sweep.groups, rows, strict=True)
    ]
    print_table("", ["point", "runs", *names], table)
    out.print(f"\nwrote {', '.join(map(str, files))}", markup=False, soft_wrap=True)
    if not any(file.suffix == ".parquet" for file in files):
        err.print(NO_PARQUET, markup=False, soft_wrap=True)


def _mean_and_spread(metric: dict[str, float | None] | None) -> str:
    if metric is None or metric["mean"] is None:
        return ""
    spread = "" if metric["std"] is None else f" ± {100 * metric['std']:.1f}"
    return f"{100 * metric['mean']:.1f}{spread} %"


def _where(runs: list[Path]) -> Path:
    """The default output: in the folder of the run, or in the current folder for several."""
    if len(runs) > 1:
        return Path("report.html")
    return (runs[0] if runs[0].is_dir() else runs[0].parent) / "report.html"


def _print(rows: list[dict[str, Any]], target: float, *, personal: bool) -> None:
    """A line per run and prototype; the devices' own models where they were scored."""
    own = "personal models" if personal else "own models"
    columns = ["run", "prototype", "accuracy", f"{own}, own slice", "worst", "best", f"{100 * target:g} % in round"]
    table = [
        [
            row["run"],
            p["prototype"],
            _percent(p["accuracy"] if p["device_accuracy"] is None else p["device_accuracy"]),
            _percent(p["own_accuracy"]),
            _percent(p["own_worst"]),
            _percent(p["best"]),
            p["rounds_to_target"] or "not reached",
        ]
        for row in rows
        for p in row["prototypes"]
    ]
    if not any(line[3] for line in table):
        columns, table = columns[:3] + columns[5:], [line[:3] + line[5:] for line in table]
    print_table("", columns, table)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"
