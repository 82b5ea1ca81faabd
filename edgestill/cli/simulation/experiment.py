"""`edgestill experiment`: reproduces tables and figures of the papers."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import ConfigError, EdgestillError
from edgestill import __version__
from edgestill.cli import completion
from edgestill.cli.jobs_display import JobsDisplay
from edgestill.cli.output import err, out, print_json, print_table

if TYPE_CHECKING:
    from fleet.experiments.base import Experiment
    from fleet.experiments.store import Store, Work

__all__ = ["experiment"]


_Cells = Annotated[
    str, typer.Option(help="Measure only these cells, comma-separated; * matches anything. Other results are kept.")
]
_Fidelity = Annotated[
    str,
    typer.Option(help="paper: the formulas as printed. reference: the behaviour of the authors' code. all: both."),
]
_Out = Annotated[
    Path | None, typer.Option("--out", help="Folder of the measurements and the page; created if missing.")
]
_Page = Annotated[
    Path | None, typer.Option(help="Also write the page to this folder, such as docs/results of a checkout.")
]
_ReportOnly = Annotated[
    bool, typer.Option("--report-only", help="Measure nothing; rewrite the page from existing measurements.")
]


def experiment(
    name: Annotated[
        str, typer.Argument(help="An experiment, or `list` for their names.", autocompletion=completion.experiments)
    ],
    cells: _Cells = "*",
    fidelity: _Fidelity = "all",
    seeds: Annotated[str, typer.Option(help="Comma-separated; default: the experiment's own.")] = "",
    out_dir: _Out = None,
    page: _Page = None,
    jobs: Annotated[int, typer.Option(min=1, max=1024, help="Parallel processes, each with one thread.")] = 2,
    force: Annotated[bool, typer.Option("--force", help="Repeat existing measurements.")] = False,
    report_only: _ReportOnly = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print NAME.json to stdout.")] = False,
) -> None:
    """Reproduce a table or a figure of a paper and compare it with the published numbers.

    Finished runs are stored in --out: called again, an interrupted experiment continues.

    Example:  edgestill experiment feddf-toy --out toy
    """
    from fleet.experiments.registry import find_experiment, names

    if name == "list":
        _list(names(), as_json=as_json)
        return
    chosen_experiment = find_experiment(name)
    asked = _seeds(seeds) or chosen_experiment.seeds
    if out_dir is None:
        raise ConfigError(f"give --out, the folder for the measurements of {name}")
    from fleet.experiments.store import Store

    store = Store(out_dir)
    store.make()
    chosen = _works(chosen_experiment, cells, fidelity, asked)
    missing = [] if report_only else [work for work in chosen if force or store.read(work) is None]
    facts, failed = _measure(name, chosen_experiment, missing, store, page, jobs=jobs, quiet=quiet or as_json)
    if as_json:
        print_json(facts)
    else:
        _print(name, facts, out_dir)
    if failed:
        work, reason = next(iter(failed.items()))
        raise EdgestillError(f"{len(failed)} of {len(missing)} runs failed; {work}: {reason} ({store.log(work)})")


def _measure(
    name: str, experiment: Experiment, missing: list[Work], store: Store, page: Path | None, *, jobs: int, quiet: bool
) -> tuple[dict[str, Any], dict[Work, str]]:
    """Execute the missing runs and write the page, even if some fail; the page's JSON, and the errors."""
    from fleet.experiments.report import write_report
    from fleet.experiments.runner import run_all

    with JobsDisplay(len(missing), quiet=quiet) as show:
        try:
            failed = run_all(name, missing, store, jobs=jobs, show=show)
        finally:
            facts = write_report(name, experiment, store, page=page, edgestill=__version__)
    return facts, failed


def _list(known: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        print_json([{"name": name, "title": title} for name, title in known.items()])
    else:
        print_table("", ["experiment", "measures"], list(known.items()))


def _seeds(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(re.fullmatch(r"[0-9]{1,15}", word) for word in words):
        raise ConfigError(f"--seeds {text[:80]!r}: give whole numbers, such as 0,1,2")
    return tuple(dict.fromkeys(int(word) for word in words))


def _works(experiment: Experiment, cells: str, fidelity: str, seeds: tuple[int, ...]) -> list[Work]:
    """The runs of the selected cells, ordered by seed, so that every cell has a first result early."""
    from fleet.experiments.report import full_name
    from fleet.experiments.store import Work

    if fidelity != "all" and fidelity not in experiment.fidelities:
        raise ConfigError(f"--fidelity {fidelity}: this experiment has {' and '.join(experiment.fidelities)}")
    fidelities = experiment.fidelities if fidelity == "all" else (fidelity,)
    every = [(f, cell, full_name(experiment, f, cell)) for f in fidelities for cell in experiment.cells(f)]
    chosen = []
    for pattern in (word.strip() for word in cells.split(",")):
        fits = [(f, c) for f, c, name in every if fnmatchcase(name, pattern) or fnmatchcase(c.name, pattern)]
        if not fits:
            raise ConfigError(f"--cells {pattern!r}: no such cell; there are {', '.join(name for *_, name in every)}")
        chosen += fits
    return list(dict.fromkeys(Work(run, f, seed) for seed in seeds for f, cell in chosen for run in cell.runs))


def _print(name: str, facts: dict[str, Any], folder: Path) -> None:
    from fleet.experiments.page import number

    rows = [
        [
            cell["name"],
            "" if cell["paper"] is None else f"{cell['paper']:g}",
            number(cell["ours"], cell["std"]),
            cell["unit"],
            cell["target"] or "",
            "" if cell["target"] is None else "yes" if cell["met"] else "no",
        ]
        for cell in facts["cells"]
    ]
    out.print(facts["title"], style="italic", markup=False, soft_wrap=True)
    print_table("", ["cell", "paper", "ours", "", "target", "met"], rows)
    if facts["not_measured"]:
        err.print(f"not measured: {', '.join(facts['not_measured'])}", markup=False, soft_wrap=True)
    out.print(f"\nwrote {folder / name}.md, .json and .png", markup=False, soft_wrap=True)
