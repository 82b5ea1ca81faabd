"""NAME.md: the result page of an experiment, made of what NAME.json says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleet.experiments.base import Experiment

__all__ = ["INDEX_START", "duration", "index", "markdown", "number"]

INDEX_START = "# Results\n\nPages made by `edgestill experiment`"


def markdown(experiment: Experiment, facts: Mapping[str, Any]) -> str:
    """The page."""
    name, cells = facts["experiment"], facts["cells"]
    parts = [
        f"# {experiment.title}",
        experiment.about.strip(),
        f"Made by `edgestill experiment {name}`; the numbers are in [{name}.json]({name}.json).",
    ]
    if cells:
        parts += [_table(cells), f"![{experiment.title}]({name}.png)", _verdict(cells)]
    if facts["not_measured"]:
        parts.append(f"Not measured: {', '.join(facts['not_measured'])}.")
    parts.append(_how(facts))
    return "\n\n".join(parts) + "\n"


def index(pages: Sequence[Mapping[str, Any]]) -> str:
    """README.md of a folder of result pages, given what their JSON files say."""
    lines = [
        f"{INDEX_START} ([how](../experiments.md)), each with the published numbers, ours, seeds,",
        "versions and time. Where a target is missed, the page says so.",
        "",
        "| experiment | what | targets met |",
        "|---|---|---|",
    ]
    for facts in pages:
        aimed = [cell for cell in facts["cells"] if cell["target"] is not None]
        met = f"{sum(cell['met'] for cell in aimed)} of {len(aimed)}"
        lines.append(f"| [{facts['experiment']}]({facts['experiment']}.md) | {facts['title']} | {met} |")
    return "\n".join(lines) + "\n"


def number(value: float | None, std: float | None = None) -> str:
    """Two decimals, with the standard deviation if there is one.

    >>> number(5.238, 0.1), number(None)
    ('5.24 ± 0.10', '')
    """
    if value is None:
        return ""
    return f"{value:.2f}" if std is None else f"{value:.2f} ± {std:.2f}"


def duration(seconds: float) -> str:
    """In the unit that fits.

    >>> duration(42.3), duration(754), duration(8000)
    ('42 s', '12.6 min', '2.2 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _table(cells: list[dict[str, Any]]) -> str:
    lines = ["| cell | paper | ours | target | met |", "|---|---|---|---|---|"]
    for cell in cells:
        unit = f" {cell['unit']}" if cell["unit"] else ""
        name = cell["name"] + (f" ({cell['note']})" if cell["note"] else "")
        paper = "" if cell["paper"] is None else f"{cell['paper']:g}{unit}"
        met = "" if cell["target"] is None else "yes" if cell["met"] else "**no**"
        lines.append(
            f"| {name} | {paper} | {number(cell['ours'], cell['std'])}{unit} | {cell['target'] or ''} | {met} |"
        )
    return "\n".join(lines)


def _verdict(cells: list[dict[str, Any]]) -> str:
    aimed = [cell for cell in cells if cell["target"] is not None]
    missed = [cell for cell in aimed if not cell["met"]]
    if not aimed:
        return "No targets."
    met = f"{len(aimed) - len(missed)} of {len(aimed)} targets are met."
    if not missed:
        return met
    said = "; ".join(f"{c['name']}: {number(c['ours'])} where {c['target']} was asked for" for c in missed)
    return f"{met} Missed: {said}."


def _how(facts: Mapping[str, Any]) -> str:
    seeds = ", ".join(map(str, facts["seeds"])) or "none"
    lines = [
        f"- seeds {seeds}; where there are several, ours is mean ± sample standard deviation",
        f"- {duration(facts['seconds'])} of wall time in all, one thread a run",
        "- " + ", ".join(f"{key} {value}" for key, value in facts["versions"].items()),
    ]
    lines += [f"- {key}: {value}" for key, value in facts["parameters"].items()]
    return "\n".join(lines)
