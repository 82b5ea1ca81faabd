"""Means and standard deviations over seeds, one row per point of the grid, as values and CSV."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fleet.report.facts import RunFacts, read_facts
from fleet.report.summary import ensemble, mean_quality
from fleet.results.lost import lost_in_all
from fleet.sweep.grid import SEED, Point
from fleet.sweep.runner import Planned

__all__ = ["Measured", "Row", "measure", "rows", "rows_csv", "runs_csv"]

#: Metrics of a run in addition to the accuracies of its prototypes.
ACCURACY, ENSEMBLE, BYTES_UP, BYTES_DOWN, SECONDS = "accuracy", "ensemble", "bytes_up", "bytes_down", "seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A completed run."""

    name: str
    point: Point
    metrics: dict[str, float]  # `accuracy` is the mean over the prototypes; each prototype's is stored by its name
    lost: str = ""  # text about devices whose training failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Runs that differ only in the seed."""

    point: Point  # without the seed
    seeds: tuple[Any, ...]
    mean: dict[str, float]
    std: dict[str, float | None]  # sample standard deviation; None for a single run

    def to_json(self) -> dict[str, Any]:
        """The row in sweep.json."""
        metrics = {name: {"mean": self.mean[name], "std": self.std[name]} for name in self.mean}
        return {"point": self.point, "seeds": list(self.seeds), "metrics": metrics}


def measure(runs: Sequence[Planned]) -> list[Measured]:
    """The results of the completed runs."""
    done = [run for run in runs if run.state() == "done"]
    read = [(run, read_facts(run.folder, run.name)) for run in done]
    return [
        Measured(name=run.name, point=run.point, metrics=_metrics(facts), lost=lost_in_all(facts.rounds))
        for run, facts in read
    ]


def _metrics(run: RunFacts) -> dict[str, float]:
    last, together = run.last, ensemble(run.last)
    return {
        ACCURACY: mean_quality(last),
        **{name: p.quality for name, p in last.prototypes.items()},
        **({} if together is None else {ENSEMBLE: together}),
        BYTES_UP: float(sum(r.bytes_up for r in run.rounds)),
        BYTES_DOWN: float(sum(r.bytes_down for r in run.rounds)),
        SECONDS: sum(r.seconds for r in run.rounds),
    }


def rows(measured: Sequence[Measured]) -> list[Row]:
    """Rows by point without the seed, in order of first occurrence."""
    groups: dict[tuple[tuple[str, Any], ...], list[Measured]] = {}
    for run in measured:
        groups.setdefault(tuple((k, v) for k, v in run.point.items() if k != SEED), []).append(run)
    return [_row(dict(key), runs) for key, runs in groups.items()]


def _row(point: Point, runs: Sequence[Measured]) -> Row:
    names = [name for name in runs[0].metrics if all(name in run.metrics for run in runs)]
    values = {name: [run.metrics[name] for run in runs] for name in names}
    return Row(
        point=point,
        seeds=tuple(run.point.get(SEED) for run in runs),
        mean={name: statistics.fmean(several) for name, several in values.items()},
        std={name: statistics.stdev(several) if len(several) > 1 else None for name, several in values.items()},
    )


def _all(several: Sequence[dict[str, float]]) -> list[str]:
    return list(dict.fromkeys(name for metrics in several for name in metrics))


def rows_csv(rows: Sequence[Row]) -> str:
    """`sweep.csv`: a column per key of the grid, then mean and std of every metric; empty if missing."""
    keys, metrics = list(dict.fromkeys(k for row in rows for k in row.point)), _all([row.mean for row in rows])
    head = [*keys, "runs", *(f"{name} {statistic}" for name in metrics for statistic in ("mean", "std"))]
    lines = [
        [
            *(row.point.get(key, "") for key in keys),
            len(row.seeds),
            *(value for name in metrics for value in (row.mean.get(name), row.std.get(name))),
        ]
        for row in rows
    ]
    return _csv([head, *lines])


def runs_csv(measured: Sequence[Measured]) -> str:
    """`runs.csv`: every completed run."""
    keys, metrics = list(dict.fromkeys(k for run in measured for k in run.point)), _all([r.metrics for r in measured])
    lines = [
        [run.name, *(run.point.get(key, "") for key in keys), *(run.metrics.get(name) for name in metrics)]
        for run in measured
    ]
    return _csv([["run", *keys, *metrics], *lines])


def _csv(lines: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()
