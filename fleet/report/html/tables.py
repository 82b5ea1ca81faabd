"""Contents of a report's tables; `templates/table.html.j2` renders them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from fleet.report.facts import RunFacts
from fleet.report.figures.devices import MOST, verdicts
from fleet.report.figures.virtual import board_totals, missed, virtual_seconds
from fleet.report.summary import OWN_MODELS, run_row
from fleet.report.units import DASH, percent, size, span
from fleet.results.lost import guessing, guessing_text
from fleet.results.run_file import has_personal_models

__all__ = ["Table", "boards", "comparison", "configuration", "devices", "own_models", "prototypes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows that start with a name; the other columns are numeric, except those in `text`."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    text: Collection[int] = ()  # columns
    marked: Collection[int] = ()  # rows in which runs differ
    note: str = ""  # after the caption
    heading: str = ""  # heading, if a section has several tables
    folded: bool = False  # collapsed until clicked

    def kind(self, column: int) -> str:
        """The CSS class of a column's cells."""
        return "text" if column in self.text else "number"


def _without_empty(columns: list[str], rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Remove columns that are empty in all rows."""
    kept = [n for n in range(len(columns)) if any(row[n] != DASH for row in rows)]
    return [columns[n] for n in kept], [[row[n] for n in kept] for row in rows]


def prototypes(run: RunFacts, target: float) -> Table:
    """Accuracy, update size and rounds to target of each prototype of a run."""
    goal = f"{100 * target:g}\u00a0%"
    columns = ["prototype", "devices", "accuracy", "float weights", "its average", "devices' own", "best"]
    columns += ["one update", f"{goal} in round", f"bytes to {goal}"]
    rows = []
    for row in run_row(run, target)["prototypes"]:
        scores = ("accuracy", "accuracy_float", "average_accuracy", "device_accuracy", "best")
        first = row["rounds_to_target"]
        rows.append(
            [
                row["prototype"],
                str(row["devices"]),
                *(percent(row[key]) for key in scores),
                size(row["update_bytes"]),
                "not reached" if first is None else str(first),
                size(row["bytes_to_target"]),
            ]
        )
    columns, rows = _without_empty(columns, rows)
    return Table(caption=f"After round {run.last.round}, on the whole test set", columns=columns, rows=rows)


def own_models(run: RunFacts) -> Table | None:
    """Accuracies of the honest devices' own models after training; None if they were not scored."""
    rows = []
    for name in run.prototypes:
        scored = [p for _, p in run.scored(name) if p.whole_accuracy is not None]
        if scored:
            rows.append([name, *(percent(getattr(scored[-1], key)) for key in OWN_MODELS)])
    if not rows:
        return None
    columns = [
        "prototype",
        *(f"{on}, {statistic}" for on in ("own slice", "whole") for statistic in ("mean", "worst", "best")),
    ]
    kind = "personal models, which their boards run," if has_personal_models(run.config) else "own models"
    caption = f"The devices' {kind} after training, without attackers"
    return Table(caption=caption, columns=columns, rows=rows)


def comparison(runs: Sequence[RunFacts], target: float) -> Table:
    """A row per run, a column per prototype."""
    names = list(dict.fromkeys(name for run in runs for name in run.prototypes))
    columns = ["run", "rounds", "mean", *names, "ensemble", "best mean", "up", "down", "time", "attackers' share"]
    rows = []
    for run in runs:
        row = run_row(run, target)
        by_name = {p["prototype"]: p for p in row["prototypes"]}
        own = [by_name[n]["device_accuracy"] or by_name[n]["accuracy"] if n in by_name else None for n in names]
        rows.append(
            [
                run.name,
                str(row["rounds"]),
                *(percent(value) for value in (row["accuracy"], *own, row["ensemble_accuracy"], row["best"])),
                size(row["bytes_up"]),
                size(row["bytes_down"]),
                span(row["seconds"]),
                percent(row["attackers_share"]),
            ]
        )
    columns, rows = _without_empty(columns, rows)
    return Table(caption="Accuracy after each run's last round, bytes and time", columns=columns, rows=rows)


def devices(run: RunFacts) -> Table:
    """Every device: its samples, its role in fusion, its attack."""
    rows = []
    for v in verdicts(run)[:MOST]:
        excluded = f"{v.excluded}×: {v.reason}" if v.excluded else DASH
        score = f"{fmean(v.scores):.3f}" if v.scores else DASH
        share = percent(fmean(v.weights) if v.weights else None)
        capped = f"{v.capped}×: {v.claim}" if v.capped else DASH
        own = [percent(v.own_accuracy), percent(v.whole_accuracy)]
        lost = f"{v.lost}×: {v.why_lost}" if v.lost else DASH
        judged = [score, share, capped, excluded, lost, v.attack or DASH]
        rows.append([v.device, v.prototype, f"{v.examples:,}", *own, *judged])
    columns = ["device", "prototype", "samples", "own slice", "whole test set"]
    columns += ["mean score", "mean share", "capped", "excluded", "lost", "attack"]
    columns, rows = _without_empty(columns, rows)
    text = [n for n, name in enumerate(columns) if name in ("prototype", "capped", "excluded", "lost", "attack")]
    more = len(run.fleet) - MOST
    caption = "Each device: accuracy of its own model when last scored, score and share of the average over its rounds"
    caption += f"; {more:,} more are not shown" if more > 0 else ""
    return Table(caption=caption, columns=columns, rows=rows, text=text)


def warnings(run: RunFacts) -> Table | None:
    """The warnings of a run; None if there are none."""
    rows = [[str(result.round), text] for result in run.rounds for text in result.warnings]
    if run.fleet and (low := guessing(run.last, [device.labels for device in run.fleet])):
        rows.append([str(run.last.round), guessing_text(low)])
    return Table(caption="Warnings", columns=["round", "warning"], rows=rows, text=[1]) if rows else None


def boards(run: RunFacts) -> Table:
    """The cost of one device of each board, over all rounds."""
    columns = ["board", "devices", "busy", "in training", "energy", "up", "down"]
    rows = []
    for total in board_totals(run):
        one = max(total.devices, 1)
        parts = (span(total.seconds / one), span(total.train_seconds / one), f"{total.joules / one / 1000:.2f} kJ")
        rows.append([total.board, str(total.devices), *parts, size(total.bytes_up / one), size(total.bytes_down / one)])
    caption = f"One device of each board, all rounds, estimated; {span(virtual_seconds(run))} in all, {missed(run)}"
    return Table(caption=caption, columns=columns, rows=rows)


def configuration(runs: Sequence[RunFacts], *, versions: bool = False) -> Table:
    """Every setting of every run; rows in which runs differ are marked."""
    flat = [run.versions if versions else _flat(run.config) for run in runs]
    keys = list(dict.fromkeys(key for settings in flat for key in settings))
    rows = [[key, *(str(settings.get(key, DASH)) for settings in flat)] for key in keys]
    marked = [n for n, (_, *values) in enumerate(rows) if len(set(values)) > 1]
    return Table(
        caption="Versions" if versions else "Every setting, defaults included",
        note="; rows marked ≠ differ" if marked else "",
        columns=["setting", *([run.name for run in runs] if len(runs) > 1 else ["value"])],
        rows=rows,
        text=range(1, len(runs) + 1),
        marked=marked,
    )


def _flat(config: Mapping[str, Any], start: str = "") -> dict[str, str]:
    """Flatten tables into dotted names; empty tables and None become dashes.

    >>> _flat({"a": 1, "training": {"lr": 0.1}, "p": ["x", "y"], "n": None})
    {'a': '1', 'training.lr': '0.1', 'p': 'x, y', 'n': '–'}
    """
    flat = dict[str, str]()
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{start}{key}.")
        elif isinstance(value, list | tuple):
            flat[start + key] = ", ".join(map(str, value)) or DASH
        else:
            flat[start + key] = DASH if value in (None, "", {}) else str(value)
    return flat
