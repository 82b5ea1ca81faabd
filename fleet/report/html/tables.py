"""Tables of a report, as HTML: numbers to the right, in digits of one width; what is missing is a dash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from fleet.report.facts import RunFacts
from fleet.report.figures.devices import MOST, verdicts
from fleet.report.figures.virtual import board_totals, missed, virtual_seconds
from fleet.report.html.tags import Markup, join, tag
from fleet.report.summary import OWN_MODELS, run_row

__all__ = [
    "boards",
    "comparison",
    "configuration",
    "devices",
    "own_models",
    "percent",
    "prototypes",
    "size",
    "span",
    "table",
]

DASH = "–"


def percent(value: float | None) -> str:
    """
    >>> percent(0.91234), percent(None)
    ('91.2 %', '–')
    """
    return DASH if value is None else f"{100 * value:.1f} %"


def size(count: float | None) -> str:
    """Bytes in the unit that fits.

    >>> size(1234), size(56_789_000), size(None)
    ('1.2 kB', '56.8 MB', '–')
    """
    if count is None:
        return DASH
    for unit, scale in (("kB", 1e3), ("MB", 1e6), ("GB", 1e9)):
        if count < 1000 * scale or unit == "GB":
            return f"{count / scale:.1f} {unit}"
    raise AssertionError("the last unit fits")


def span(seconds: float) -> str:
    """
    >>> span(42.25), span(754), span(8000)
    ('42.2 s', '12.6 min', '2.2 h')
    """
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, text: Sequence[int] = ()) -> Markup:
    """Rows that start with a name; columns are numbers, but for those of `text`."""

    def kind(column: int) -> str:
        return "text" if column in text else "number"

    head = [tag("th", name, scope="col", class_=kind(n) if n else None) for n, name in enumerate(columns)]
    body = [
        tag(
            "tr",
            tag("th", row[0], scope="row"),
            *(tag("td", cell, class_=kind(n)) for n, cell in enumerate(row[1:], 1)),
        )
        for row in rows
    ]
    inside = (tag("caption", caption), tag("thead", tag("tr", *head)), tag("tbody", *body))
    return tag("div", tag("table", *inside), class_="scroll", tabindex="0", role="region", aria_label=caption)


def _without_empty(columns: list[str], rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Columns in which no row has anything are left out."""
    kept = [n for n in range(len(columns)) if any(row[n] != DASH for row in rows)]
    return [columns[n] for n in kept], [[row[n] for n in kept] for row in rows]


def prototypes(run: RunFacts, target: float) -> Markup:
    """How good, how small and how soon each prototype of a run is."""
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
    return table(f"After round {run.last.round}, on the whole test set", *_without_empty(columns, rows))


def own_models(run: RunFacts) -> Markup | None:
    """How good the models are that the honest devices have after their training; None where they were not scored."""
    rows = []
    for name in run.prototypes:
        found = [p for _, p in run.scored(name) if p.whole_accuracy is not None]
        if found:
            rows.append([name, *(percent(getattr(found[-1], key)) for key in OWN_MODELS)])
    if not rows:
        return None
    columns = ["prototype", *(f"{on}, {what}" for on in ("own slice", "whole") for what in ("mean", "worst", "best"))]
    return table("The devices' own models after their training; attackers left out", columns, rows)


def comparison(runs: Sequence[RunFacts], target: float) -> Markup:
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
    return table("Accuracy after each run's last round, and what it took", *_without_empty(columns, rows))


def devices(run: RunFacts) -> Markup:
    """Every device: what it has, how fusion judged it, whether it does harm."""
    rows = []
    for v in verdicts(run)[:MOST]:
        left_out = f"{v.left_out}×: {v.reason}" if v.left_out else DASH
        score = f"{fmean(v.scores):.3f}" if v.scores else DASH
        share = percent(fmean(v.weights) if v.weights else None)
        capped = f"{v.capped}×: {v.claim}" if v.capped else DASH
        own = [percent(v.own_accuracy), percent(v.whole_accuracy)]
        lost = f"{v.lost}×: {v.why_lost}" if v.lost else DASH
        judged = [score, share, capped, left_out, lost, v.attack or DASH]
        rows.append([v.device, v.prototype, f"{v.examples:,}", *own, *judged])
    columns = ["device", "prototype", "samples", "own slice", "whole test set"]
    columns += ["mean score", "mean share", "capped", "left out", "lost", "attack"]
    columns, rows = _without_empty(columns, rows)
    text = [n for n, name in enumerate(columns) if name in ("prototype", "capped", "left out", "lost", "attack")]
    more = len(run.fleet) - MOST
    caption = "Each device: accuracy of its own model when last scored, and how fusion judged it, mean over its rounds"
    return table(caption + (f"; {more:,} more are not shown" if more > 0 else ""), columns, rows, text=text)


def boards(run: RunFacts) -> Markup:
    """What one device of each board would have needed, over all rounds."""
    columns = ["board", "devices", "busy", "of it training", "energy", "up", "down"]
    rows = []
    for total in board_totals(run):
        one = max(total.devices, 1)
        parts = (span(total.seconds / one), span(total.train_seconds / one), f"{total.joules / one / 1000:.2f} kJ")
        rows.append([total.board, str(total.devices), *parts, size(total.bytes_up / one), size(total.bytes_down / one)])
    caption = f"One device of each board, all rounds, estimated; {span(virtual_seconds(run))} in all, {missed(run)}"
    return table(caption, columns, rows)


def configuration(runs: Sequence[RunFacts], *, versions: bool = False) -> Markup:
    """Every setting of every run; rows in which runs differ are marked."""
    flat = [run.versions if versions else _flat(run.config) for run in runs]
    keys = list(dict.fromkeys(key for settings in flat for key in settings))
    caption = "Versions" if versions else "Every setting, defaults included"
    body = []
    for key in keys:
        values = [str(settings.get(key, DASH)) for settings in flat]
        differs = len(set(values)) > 1
        name = join([key, " ≠"]) if differs else key
        cells = [tag("td", value, class_="text") for value in values]
        body.append(tag("tr", tag("th", name, scope="row"), *cells, class_="differs" if differs else None))
    names = [run.name for run in runs] if len(runs) > 1 else ["value"]
    head = [tag("th", name, scope="col") for name in ("setting", *names)]
    note = "; rows marked ≠ differ" if any("differs" in row for row in body) else ""
    inside = (tag("caption", caption + note), tag("thead", tag("tr", *head)), tag("tbody", *body))
    return tag("div", tag("table", *inside), class_="scroll", tabindex="0", role="region", aria_label=caption)


def _flat(config: Mapping[str, Any], start: str = "") -> dict[str, str]:
    """Tables become dotted names; empty ones and None are dashes.

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
