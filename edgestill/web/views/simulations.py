"""Runs of simulated fleets in a folder, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.errors import EdgestillError
from fleet.report.facts import RunFacts, read_facts
from fleet.report.summary import default_target, mean_quality, run_row

__all__ = ["MOST_RUNS", "chosen_runs", "run_charts", "run_names", "runs"]

MOST_RUNS = 200  # folders that are read
MOST_CHOSEN = 8  # in one chart
_seen: dict[tuple[Path, int, int], RunFacts | str] = {}  # by file, time and size: a run is read once


def run_names(folder: Path) -> list[str]:
    """The newest runs in the folder, or one folder below, newest first."""
    files = [*folder.glob("*/run.json"), *folder.glob("*/*/run.json")]
    found = sorted((file.stat().st_mtime, str(file.parent.relative_to(folder))) for file in files if file.is_file())
    return [name for _, name in reversed(found[-MOST_RUNS:])]


def runs(folder: Path) -> dict[str, Any]:
    """A row for every run that can be read, and why the others cannot."""
    read, broken = _read(folder, run_names(folder))
    target = default_target(read) if read else 0.0
    rows = [_row(run, target) for run in read]
    return {"rows": rows, "broken": broken, "target": target}


def chosen_runs(folder: Path, names: Sequence[str]) -> list[str]:
    """Those of the names that are runs in the folder, at most MOST_CHOSEN; the newest two if none is chosen."""
    known = run_names(folder)
    return [name for name in dict.fromkeys(names) if name in known][:MOST_CHOSEN] or known[:2]


def run_charts(folder: Path, names: Sequence[str]) -> dict[str, Any]:
    """Series by round of the chosen runs: mean accuracy of all prototypes, and bytes sent up."""
    read, _ = _read(folder, chosen_runs(folder, names))
    most = max((len(run.rounds) for run in read), default=0)
    accuracy = {run.name: _series(run, most, "accuracy") for run in read}
    return {
        "rounds": list(range(1, most + 1)),
        "accuracy": accuracy,
        "bytes": {run.name: _series(run, most, "bytes_up") for run in read},
    }


def _read(folder: Path, names: Sequence[str]) -> tuple[list[RunFacts], dict[str, str]]:
    found = {name: _facts(folder / name, name) for name in names}
    broken = {name: one for name, one in found.items() if isinstance(one, str)}
    return [one for one in found.values() if not isinstance(one, str)], broken


def _facts(path: Path, name: str) -> RunFacts | str:
    try:
        stat = (path / "run.json").stat()
        key = path / "run.json", stat.st_mtime_ns, stat.st_size
        if key not in _seen:
            while len(_seen) >= MOST_RUNS:
                del _seen[next(iter(_seen))]
            _seen[key] = read_facts(path, name)
        return _seen[key]
    except (EdgestillError, OSError) as error:
        return str(error)


def _row(run: RunFacts, target: float) -> dict[str, Any]:
    facts = run_row(run, target)
    return {
        **{name: facts[name] for name in ("run", "rounds", "accuracy", "best", "bytes_up", "seconds", "lost")},
        "recipe": _word(run.config.get("recipe")),
        "dataset": _word(run.config.get("dataset")),
        "devices": len(run.fleet),
        "prototypes": {row["prototype"]: row["accuracy"] for row in facts["prototypes"]},
    }


def _word(value: Any) -> str:
    return str(value.get("name", "")) if isinstance(value, dict) else str(value or "")


def _series(run: RunFacts, most: int, what: str) -> list[float | None]:
    by_round = {r.round: r for r in (run.scored_rounds if what == "accuracy" else run.rounds)}
    read = mean_quality if what == "accuracy" else lambda r: r.bytes_up
    return [float(read(by_round[number])) if number in by_round else None for number in range(1, most + 1)]
