"""The report of a sweep: one HTML page with curves over seeds and a row per point; all rounds as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from core.files import write_atomic
from fleet.report.facts import RunFacts
from fleet.report.figures.catalogue import Picture
from fleet.report.figures.style import DARK, LIGHT, png
from fleet.report.html import tables
from fleet.report.html.page import Section, render
from fleet.report.html.tables import Table
from fleet.report.summary import mean_quality
from fleet.report.units import DASH, percent
from fleet.sweep.rounds import write_rounds
from fleet.sweep.spread import MOST_LINES, best_groups, draw_spread, panels_of
from fleet.sweep.stored import Group, StoredSweep

__all__ = ["point_rows", "write_sweep_report"]


def write_sweep_report(sweep: StoredSweep, path: Path) -> list[Path]:
    """Write the page, its figure as PNG, `rounds.csv` and `rounds.parquet` beside it; the files, the page first."""
    picture = _picture(sweep.groups)
    sections = [
        Section("summary", "Points of the grid", [_summary(sweep.groups)]),
        Section(picture.name, picture.title, figure=picture),
        *([Section("missing", "Missing runs", [_missing(sweep.missing)])] if sweep.missing else []),
        Section("configuration", "Configuration", [_shared(sweep.runs)]),
    ]
    name = sweep.folder.resolve().name
    lede = f"{len(sweep.groups)} points, {len(sweep.runs)} runs"
    text = render(title=f"Sweep {name}", lede=lede, sections=sections, runs=sweep.runs, command=name)
    image = path.with_name(f"{path.stem}-{picture.name}.png")
    write_atomic(image, picture.light)
    others = write_rounds(sweep, path.parent)
    write_atomic(path, text)
    return [path, image, *others]


def point_rows(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """A row per point after the last round: mean and sample standard deviation over its seeds; None for one seed."""
    rows = []
    for group in groups:
        names = [name for name in group.runs[0].prototypes if all(name in run.last.prototypes for run in group.runs)]
        columns = {"accuracy": [mean_quality(run.last) for run in group.runs]}
        columns |= {name: [run.last.prototypes[name].quality for run in group.runs] for name in names}
        metrics = {
            name: {"mean": fmean(values), "std": stdev(values) if len(values) > 1 else None}
            for name, values in columns.items()
        }
        rows.append({"point": dict(group.point), "runs": len(group.runs), "metrics": metrics})
    return rows


def _summary(groups: Sequence[Group]) -> Table:
    rows = point_rows(groups)
    names = list(dict.fromkeys(name for row in rows for name in row["metrics"]))
    return Table(
        caption="Accuracy after the last round: mean ± standard deviation over the seeds",
        columns=["point", "runs", *names],
        rows=[
            [group.name, str(row["runs"]), *(_spread(row["metrics"].get(name)) for name in names)]
            for group, row in zip(groups, rows, strict=True)
        ],
    )


def _spread(metric: dict[str, float | None] | None) -> str:
    if metric is None:
        return DASH
    mean, std = metric["mean"], metric["std"]
    return percent(mean) if std is None or mean is None else f"{100 * mean:.1f} ± {100 * std:.1f}\u00a0%"


def _picture(groups: Sequence[Group]) -> Picture:
    left_out = len(groups) - len(best_groups(groups))
    caption = "A line per point: the mean over its seeds; the band is one standard deviation to each side."
    if left_out:
        caption += f" The {MOST_LINES} points with the highest accuracy are shown; the table has {left_out} more."
    ends = [f"{group.name} ends at {percent(fmean(mean_quality(r.last) for r in group.runs))}" for group in groups]
    return Picture(
        name="spread",
        title="Accuracy over seeds" if len(panels_of(groups)) == 1 else "Accuracy over seeds, by prototype",
        caption=caption,
        alt="; ".join(ends),
        light=png(draw_spread(groups, LIGHT)),
        dark=png(draw_spread(groups, DARK)),
    )


def _missing(names: Sequence[str]) -> Table:
    return Table(
        caption="Runs without a result; call the sweep again", columns=["run"], rows=[[name] for name in names]
    )


def _shared(runs: Sequence[RunFacts]) -> Table:
    """The settings that all runs share."""
    every = tables.configuration(runs)
    rows = [[row[0], row[1]] for n, row in enumerate(every.rows) if n not in every.marked]
    return replace(
        every,
        caption="Settings that all runs share",
        note="",
        columns=["setting", "value"],
        rows=rows,
        text=(1,),
        marked=(),
    )
