"""All rounds of a sweep as one table: a row per run, round and prototype; as CSV, and as Parquet where pyarrow is."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.files import atomic_file, write_atomic
from fleet.results.run_file import PrototypeResult
from fleet.sweep.stored import StoredSweep

__all__ = ["NO_PARQUET", "all_rounds", "write_rounds"]

NO_PARQUET = "rounds.parquet is not written: pyarrow is not installed; pip install 'edgestill[parquet]'"
#: Columns of a prototype in a round; empty where a round was not scored, or the recipe does not have the number.
METRICS = ("accuracy", "accuracy_float", "loss", "train_loss", "average_accuracy", "ensemble_accuracy")
COUNTS = ("devices", "bytes_up", "bytes_down")


def all_rounds(sweep: StoredSweep) -> list[dict[str, Any]]:
    """The rows: run, the keys of its point, round, prototype, metrics, and the seconds of the whole round."""
    keys = list(dict.fromkeys(key for group in sweep.groups for point in group.points for key in point))
    return [
        {
            "run": run.name,
            **{key: point.get(key) for key in keys},
            "round": result.round,
            "prototype": name,
            **_numbers(prototype),
            "seconds": result.seconds,
        }
        for group in sweep.groups
        for run, point in zip(group.runs, group.points, strict=True)
        for result in run.rounds
        for name, prototype in result.prototypes.items()
    ]


def _numbers(result: PrototypeResult) -> dict[str, float | int | None]:
    metrics = {name: getattr(result, name) for name in METRICS}
    known = {name: None if value is None or math.isnan(value) else float(value) for name, value in metrics.items()}
    return {**known, **{name: int(getattr(result, name)) for name in COUNTS}}


def write_rounds(sweep: StoredSweep, folder: Path) -> list[Path]:
    """Write `rounds.csv`, and `rounds.parquet` if pyarrow is installed; the files that were written."""
    rows = all_rounds(sweep)
    text = io.StringIO()
    lines = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    lines.writeheader()
    lines.writerows(rows)
    write_atomic(folder / "rounds.csv", text.getvalue())
    written = _write_parquet(rows, folder / "rounds.parquet")
    return [folder / "rounds.csv", *([folder / "rounds.parquet"] if written else [])]


def _write_parquet(rows: Sequence[dict[str, Any]], path: Path) -> bool:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ModuleNotFoundError:
        return False
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    floats = {name: pa.array(columns[name], pa.float64()) for name in METRICS}  # also a column without any number
    arrays = {name: floats[name] if name in floats else _array(values) for name, values in columns.items()}
    with atomic_file(path) as file:
        parquet.write_table(pa.table(arrays), file)
    return True


def _array(values: Sequence[Any]) -> Any:
    """A column of the grid: numbers or texts as they are, lists and mixed columns as texts."""
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} or (len(kinds) == 1 and kinds <= {str, bool}):
        return pa.array([float(v) if float in kinds and v is not None else v for v in values])
    return pa.array([None if value is None else str(value) for value in values])
