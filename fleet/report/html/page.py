"""The page: one HTML file with everything in it. It runs no script and asks nobody for anything."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from fleet.report.facts import RunFacts
from fleet.report.figures.catalogue import Picture
from fleet.report.figures.style import DPI
from fleet.report.html import tables
from fleet.report.html.css import CSS
from fleet.report.html.tags import Markup, join, tag
from fleet.report.summary import run_row

__all__ = ["page"]

#: What the browser may load: pictures and style that are in the file, nothing else.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
UNFOLDED = 4  # runs whose tables are open from the start
INCH = 105  # CSS pixels of an inch of a figure


def page(runs: Sequence[RunFacts], pictures: Sequence[Picture], target: float) -> str:
    """The whole file."""
    title = _title(runs)
    sections = [*_summary(runs, target), *(_figure(picture) for picture in pictures), *_details(runs)]
    links = [tag("li", tag("a", name, href=f"#{anchor}")) for anchor, name, _ in sections]
    body = [
        tag("header", tag("h1", title), tag("p", _lede(runs), class_="lede"), tag("nav", tag("ul", *links))),
        tag("main", *(tag("section", tag("h2", name), *inside, id=anchor) for anchor, name, inside in sections)),
        tag("footer", tag("p", _footer(runs))),
    ]
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(CSS)),
    ]
    return "<!DOCTYPE html>\n" + tag("html", tag("head", *head), tag("body", *body), lang="en") + "\n"


Section = tuple[str, str, list[Markup]]  # anchor, heading, what is in it


def _title(runs: Sequence[RunFacts]) -> str:
    if len(runs) > 1:
        return f"{len(runs)} runs compared"
    config = runs[0].config
    return f"{config.get('recipe', 'a run')} on {config.get('dataset', 'its data')}"


def _lede(runs: Sequence[RunFacts]) -> str:
    if len(runs) > 1:
        return ", ".join(run.name for run in runs)
    run = runs[0]
    said = [
        run.name,
        f"{len(run.fleet)} devices of {len(run.prototypes)} prototypes",
        f"{len(run.rounds)} of {run.config.get('rounds', len(run.rounds))} rounds",
        *(f"{name} {run.config[name]}" for name in ("partition", "alpha", "seed") if name in run.config),
    ]
    return " · ".join(said)


def _summary(runs: Sequence[RunFacts], target: float) -> list[Section]:
    if len(runs) > 1:
        first: list[Markup] = [tables.comparison(runs, target)]
        each = [_named(run.name, tables.prototypes(run, target), folded=len(runs) > UNFOLDED) for run in runs]
        return [("summary", "Side by side", first), ("prototypes", "Prototypes", each)]
    return [("summary", "At a glance", [_tiles(runs[0], target), tables.prototypes(runs[0], target)])]


def _named(name: str, inside: Markup, *, folded: bool) -> Markup:
    """Something of one run, below its name; folded, a click opens it."""
    return tag("details", tag("summary", name), inside) if folded else join([tag("h3", name), inside])


def _tiles(run: RunFacts, target: float) -> Markup:
    row = run_row(run, target)
    top = max(row["prototypes"], key=lambda p: p["device_accuracy"] or p["accuracy"])
    found: list[tuple[str, str, str, str | None]] = [
        ("mean accuracy", tables.percent(row["accuracy"]), f"of {len(row['prototypes'])} prototypes", None),
        ("best prototype", tables.percent(top["device_accuracy"] or top["accuracy"]), top["prototype"], None),
    ]
    if row["ensemble_accuracy"] is not None:
        found.append(("ensemble", tables.percent(row["ensemble_accuracy"]), "all teachers together", None))
    found.append(("on the wire", tables.size(row["bytes_up"]), f"up, {tables.size(row['bytes_down'])} down", None))
    found.append(("time", tables.span(row["seconds"]), f"{row['rounds']} rounds", None))
    if row["lost"]:
        asked = sum(r.asked for r in run.rounds)
        found.append(("lost", f"{row['lost']:,}", f"of {asked:,} updates", "alarm"))
    if row["attackers"]:
        share = tables.percent(row["attackers_share"])
        found.append(("attackers' share", share, f"of the averages, {row['attackers']} attackers", "alarm"))
    tiles = [
        tag("div", tag("dt", name), tag("dd", value, tag("small", note)), class_=kind)
        for name, value, note, kind in found
    ]
    return tag("dl", *tiles, class_="tiles")


def _figure(picture: Picture) -> Section:
    dark = tag("source", srcset=_inline(picture.dark), media="(prefers-color-scheme: dark)")
    light = tag("img", src=_inline(picture.light), alt=picture.alt, width=str(_width(picture.light)))
    figure = tag("figure", tag("picture", dark, light), tag("figcaption", picture.caption))
    return picture.name, picture.title, [figure]


def _width(image: bytes) -> int:
    """CSS pixels at which the letters of all figures have one size, from the header of a PNG."""
    return round(int.from_bytes(image[16:20], "big") * INCH / DPI)


def _inline(image: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(image).decode()}"


def _details(runs: Sequence[RunFacts]) -> list[Section]:
    several = len(runs) > 1
    by_run = [
        _named(run.name, tables.devices(run), folded=True) if several else tables.devices(run)
        for run in runs
        if run.fleet
    ]
    settings = [tables.configuration(runs)]
    own = [(run, made) for run in runs if (made := tables.own_models(run)) is not None]
    on_boards = [_named(run.name, tables.boards(run), folded=False) for run in runs if run.virtual]
    sections: list[Section] = [("boards", "Boards", on_boards)] if on_boards else []
    if own:
        each = [_named(run.name, made, folded=len(runs) > UNFOLDED) if several else made for run, made in own]
        sections.append(("own-models", "The devices' own models", each))
    sections += [("devices", "Devices", by_run)] if by_run else []
    sections.append(("configuration", "Configuration", settings))
    if any(run.versions for run in runs):
        sections.append(("versions", "Versions", [tables.configuration(runs, versions=True)]))
    return sections


def _footer(runs: Sequence[RunFacts]) -> Markup:
    versions = sorted({run.versions.get("edgestill", "") for run in runs} - {""})
    made = f" of edgestill {', '.join(versions)}" if versions else ""
    again = " ".join(["edgestill report", *(run.name for run in runs)])
    return join(
        [f"Made from {len(runs)} run.json{made} by ", tag("code", again), ". Nothing is loaded from elsewhere."]
    )
