"""Renders a report as one self-contained HTML file without scripts or network access.

The contents are computed here, the markup is in `templates/`; Jinja escapes every value.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jinja2 import Environment

from fleet.page_templates import page_templates
from fleet.report.facts import RunFacts
from fleet.report.figures.catalogue import Picture
from fleet.report.figures.style import DPI
from fleet.report.html import tables
from fleet.report.html.tables import Table
from fleet.report.summary import run_row
from fleet.report.units import percent, size, span

__all__ = ["Section", "page", "render"]

UNFOLDED = 4  # with more runs, their tables are folded
INCH = 105  # CSS pixels per inch of a figure


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure in large type."""

    name: str
    value: str
    note: str
    alarm: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its contents."""

    anchor: str
    title: str
    tables: Sequence[Table] = ()
    tiles: Sequence[Tile] = ()
    figure: Picture | None = None


def page(runs: Sequence[RunFacts], pictures: Sequence[Picture], target: float) -> str:
    """Render the page."""
    figures = [Section(picture.name, picture.title, figure=picture) for picture in pictures]
    sections = [*_summary(runs, target), *figures, *_details(runs)]
    command = " ".join(run.name for run in runs)
    return render(title=_title(runs), lede=_lede(runs), sections=sections, runs=runs, command=command)


def render(*, title: str, lede: str, sections: Sequence[Section], runs: Sequence[RunFacts], command: str) -> str:
    """A page of these sections; `command` is what `edgestill report` was given."""
    versions = sorted({run.versions.get("edgestill", "") for run in runs} - {""})
    fields = {"title": title, "lede": lede, "sections": sections, "made_from": len(runs), "command": command}
    return _templates().get_template("page.html.j2").render(**fields, versions=versions)


def _templates() -> Environment:
    return page_templates("fleet.report.html", autoescape=True, filters={"png": _inline, "css_width": _width})


def _title(runs: Sequence[RunFacts]) -> str:
    if len(runs) > 1:
        return f"{len(runs)} runs compared"
    config = runs[0].config
    return f"{config.get('recipe', 'a run')} on {config.get('dataset', 'its data')}"


def _lede(runs: Sequence[RunFacts]) -> str:
    if len(runs) > 1:
        return ", ".join(run.name for run in runs)
    run = runs[0]
    parts = [
        run.name,
        f"{len(run.fleet)} devices of {len(run.prototypes)} prototypes",
        f"{len(run.rounds)} of {run.config.get('rounds', len(run.rounds))} rounds",
        *(f"{name} {run.config[name]}" for name in ("partition", "alpha", "seed") if name in run.config),
    ]
    return " · ".join(parts)


def _summary(runs: Sequence[RunFacts], target: float) -> list[Section]:
    by_run = [(run, tables.prototypes(run, target)) for run in runs]
    if len(runs) > 1:
        together = [tables.comparison(runs, target)]
        return [
            Section("summary", "Side by side", together),
            Section("prototypes", "Prototypes", _headed(by_run, folded=len(runs) > UNFOLDED)),
        ]
    return [Section("summary", "At a glance", [by_run[0][1]], _tiles(runs[0], target))]


def _headed(by_run: Sequence[tuple[RunFacts, Table]], *, folded: bool) -> list[Table]:
    """A table of each run, below the run's name."""
    return [replace(table, heading=run.name, folded=folded) for run, table in by_run]


def _tiles(run: RunFacts, target: float) -> list[Tile]:
    row = run_row(run, target)
    top = max(row["prototypes"], key=lambda p: p["device_accuracy"] or p["accuracy"])
    tiles = [
        Tile("mean accuracy", percent(row["accuracy"]), f"of {len(row['prototypes'])} prototypes"),
        Tile("best prototype", percent(top["device_accuracy"] or top["accuracy"]), top["prototype"]),
    ]
    if row["ensemble_accuracy"] is not None:
        tiles.append(Tile("ensemble", percent(row["ensemble_accuracy"]), "of all teachers"))
    tiles.append(Tile("on the wire", size(row["bytes_up"]), f"up, {size(row['bytes_down'])} down"))
    tiles.append(Tile("time", span(row["seconds"]), f"{row['rounds']} rounds"))
    if row["lost"]:
        asked = sum(r.asked for r in run.rounds)
        tiles.append(Tile("lost", f"{row['lost']:,}", f"of {asked:,} updates", alarm=True))
    if row["attackers"]:
        share = percent(row["attackers_share"])
        tiles.append(Tile("attackers' share", share, f"of the averages, {row['attackers']} attackers", alarm=True))
    return tiles


def _width(image: bytes) -> int:
    """Display width in CSS pixels, from a PNG's header, so that text has the same size in all figures."""
    return round(int.from_bytes(image[16:20], "big") * INCH / DPI)


def _inline(image: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(image).decode()}"


def _details(runs: Sequence[RunFacts]) -> list[Section]:
    several = len(runs) > 1
    sections = list[Section]()
    warned = [(run, made) for run in runs if (made := tables.warnings(run)) is not None]
    if warned:
        sections.append(Section("warnings", "Warnings", _headed(warned, folded=False) if several else [warned[0][1]]))
    boards = [(run, tables.boards(run)) for run in runs if run.virtual]
    if boards:
        sections.append(Section("boards", "Boards", _headed(boards, folded=False)))
    own = [(run, made) for run in runs if (made := tables.own_models(run)) is not None]
    if own:
        each = _headed(own, folded=len(runs) > UNFOLDED) if several else [own[0][1]]
        sections.append(Section("own-models", "The devices' own models", each))
    devices = [(run, tables.devices(run)) for run in runs if run.fleet]
    if devices:
        each = _headed(devices, folded=True) if several else [devices[0][1]]
        sections.append(Section("devices", "Devices", each))
    sections.append(Section("configuration", "Configuration", [tables.configuration(runs)]))
    if any(run.versions for run in runs):
        sections.append(Section("versions", "Versions", [tables.configuration(runs, versions=True)]))
    return sections
