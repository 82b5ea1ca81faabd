"""Converts measured runs into the result page: NAME.json, NAME.md and NAME.png.

`cells` of the JSON file holds {"name", "paper", "ours", "std", "target", "met"} and more; `ours` is the mean over the
seeds, `std` the sample standard deviation (null for one seed). A cell without a target counts as met. Cells that were
not measured are listed separately.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.files import write_atomic
from core.versions import versions
from fleet.experiments.base import AllResults, Cell, Experiment, Fact
from fleet.experiments.page import INDEX_START, index, markdown
from fleet.experiments.store import Store, Work

__all__ = ["Row", "collect", "full_name", "write_report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A cell, measured or not."""

    name: str
    cell: Cell
    fidelity: str
    seeds: list[int]
    ours: float | None
    std: float | None
    target: str | None
    met: bool

    def to_json(self) -> dict[str, Any]:
        """The row in NAME.json."""
        return {
            "name": self.name,
            "paper": self.cell.paper,
            "ours": self.ours,
            "std": self.std,
            "target": self.target,
            "met": self.met,
            "unit": self.cell.unit,
            "fidelity": self.fidelity,
            "seeds": self.seeds,
            "note": self.cell.note,
        }


def full_name(experiment: Experiment, fidelity: str, cell: Cell) -> str:
    """The cell's name, with its fidelity if an experiment has several."""
    return f"{fidelity}: {cell.name}" if len(experiment.fidelities) > 1 else cell.name


def collect(experiment: Experiment, store: Store) -> list[Row]:
    """All cells, with values where their runs exist."""
    return [
        _row(experiment, fidelity, cell, store)
        for fidelity in experiment.fidelities
        for cell in experiment.cells(fidelity)
    ]


def _row(experiment: Experiment, fidelity: str, cell: Cell, store: Store) -> Row:
    seeds = store.seeds(fidelity, cell.runs)
    name = full_name(experiment, fidelity, cell)
    if not seeds:
        return Row(name=name, cell=cell, fidelity=fidelity, seeds=[], ours=None, std=None, target=None, met=False)
    results = [{run: _facts(store, Work(run, fidelity, seed)) for run in cell.runs} for seed in seeds]
    values = [cell.ours.value(result) for result in results]
    ours = statistics.fmean(values)
    target, met = None, True
    if cell.target is not None:
        bound = cell.target.bound
        if isinstance(bound, Fact):
            bound = statistics.fmean([bound.value(result) for result in results])
        target, met = cell.target.text(bound), cell.target.met(ours, bound)
    std = statistics.stdev(values) if len(values) > 1 else None
    return Row(name=name, cell=cell, fidelity=fidelity, seeds=seeds, ours=ours, std=std, target=target, met=met)


def _facts(store: Store, work: Work) -> dict[str, Any]:
    kept = store.read(work)
    assert kept is not None, "the store named its seed"
    facts: dict[str, Any] = kept["facts"]
    return facts


def write_report(
    name: str, experiment: Experiment, store: Store, *, page: Path | None = None, edgestill: str = ""
) -> dict[str, Any]:
    """Write the three files into the store's folder and into `page`; returns the contents of NAME.json.

    `edgestill` is its version, which a checkout that is not installed cannot determine.
    """
    from fleet.experiments.figures import bars

    rows = collect(experiment, store)
    results, seconds, made_with, commits = _everything(experiment, store)
    measured = [row for row in rows if row.seeds]
    facts = {
        "experiment": name,
        "title": experiment.title,
        "seeds": sorted({seed for row in measured for seed in row.seeds}),
        "versions": (made_with or versions()) | ({"edgestill": edgestill} if edgestill else {}),
        "commits": commits,
        "seconds": round(seconds, 1),
        "parameters": dict(experiment.parameters),
        "cells": [row.to_json() for row in measured],
        "not_measured": [row.name for row in rows if not row.seeds],
    }
    write_atomic(store.folder / f"{name}.json", json.dumps(facts, indent=1) + "\n")
    if measured:
        figure = bars(experiment.title, measured) if experiment.draw is None else experiment.draw(results)
        image = io.BytesIO()
        figure.savefig(image, format="png", metadata={"Software": None})
        write_atomic(store.folder / f"{name}.png", image.getvalue())
    write_atomic(store.folder / f"{name}.md", markdown(experiment, facts))
    if page is not None:
        _copy(name, store.folder, page)
    return facts


def _copy(name: str, folder: Path, page: Path) -> None:
    page.mkdir(parents=True, exist_ok=True)
    for suffix in ("json", "md", "png"):
        source = folder / f"{name}.{suffix}"
        if source.exists():
            shutil.copyfile(source, page / source.name)
    readme = page / "README.md"
    if not readme.exists() or readme.read_text().startswith(INDEX_START):  # only in a folder of result pages
        indexed = [json.loads(path.read_text()) for path in sorted(page.glob("*.json"))]
        pages = [facts for facts in indexed if "experiment" in facts and "cells" in facts]
        write_atomic(readme, index(pages) + (_remarks(readme.read_text()) if readme.exists() else ""))


def _remarks(text: str) -> str:
    """Hand-written text below the table of an index."""
    return re.split(r"^\|.*\n(?!\|)", text, maxsplit=1, flags=re.MULTILINE)[-1]


def _everything(experiment: Experiment, store: Store) -> tuple[AllResults, float, dict[str, str], list[str]]:
    """All stored runs, their total time, the versions of the last one, and their commits."""
    results: dict[tuple[str, int], dict[str, Any]] = {}
    seconds, made_with, commits = 0.0, dict[str, str](), set[str]()
    for fidelity in experiment.fidelities:
        for run in _runs(experiment.cells(fidelity)):
            for seed in store.seeds(fidelity, [run]):
                kept = store.read(Work(run, fidelity, seed))
                assert kept is not None, "the store named its seed"
                results.setdefault((fidelity, seed), {})[run] = kept["facts"]
                seconds += kept["seconds"]
                made_with = kept["versions"]
                commits.add(kept.get("commit", ""))
    return results, seconds, made_with, sorted(commits - {""})


def _runs(cells: Sequence[Cell]) -> list[str]:
    return list(dict.fromkeys(run for cell in cells for run in cell.runs))
