"""The documentation site: built strictly, complete, readable without a network, and short outside its reference."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from scripts.site_pages import PAGES, link_on_site, linked_outside, with_diagrams
from tests.docs.test_docs import ROOT

DOCS = ROOT / "docs"
LONGEST = 1200  # words of a page that is read from its start to its end
LOOKED_UP = ("Reference", "Results", "Project")  # sections of the navigation whose pages are not


class _Configuration(yaml.SafeLoader):
    """mkdocs.yml names a function, as `!!python/object/apply`; its arguments are of no interest here."""


_Configuration.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: suffix)


def navigation() -> list[dict[str, Any]]:
    nav: list[dict[str, Any]] = yaml.load((ROOT / "mkdocs.yml").read_text(), _Configuration)["nav"]
    return nav


def pages_of(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        for value in entry.values():
            yield from pages_of(value)
    else:
        for value in entry:
            yield from pages_of(value)


def test_every_page_is_in_the_navigation_once() -> None:
    named = list(pages_of(navigation()))
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} | set(PAGES.values())
    assert len(named) == len(set(named))
    assert set(named) == there


def test_no_page_is_long_outside_the_reference() -> None:
    guides = [page for section in navigation() if next(iter(section)) not in LOOKED_UP for page in pages_of(section)]
    assert {"simulate.md", "flashing.md", "operate.md", "application.md"} <= set(guides)
    sources = {site: ROOT / name for name, site in PAGES.items()}
    words = {
        page: len(sources.get(page, DOCS / page).read_text().split())
        for page in guides
        if sources.get(page, DOCS / page).exists()
    }
    assert {page: n for page, n in words.items() if n > LONGEST} == {}


@pytest.mark.parametrize(
    ("target", "page", "leads_to"),
    [
        ("docs/simulate.md", "index.md", "simulate.md"),
        ("LICENSE", "index.md", "LICENSE"),
        ("../CONTRIBUTING.md", "python.md", "contributing.md"),
        ("../examples/application/c/classify.c", "application.md", "examples/application/c/classify.c"),
        ("../../README.md", "results/fedgen-toy.md", "../index.md"),
        ("../fusion.md", "results/defaults.md", "../fusion.md"),
        ("fusion.md", "simulate.md", "fusion.md"),
    ],
)
def test_links_of_the_checkout_lead_to_the_same_on_the_site(target: str, page: str, leads_to: str) -> None:
    assert link_on_site(target, page) == leads_to


def test_files_outside_docs_that_pages_link_to_are_found() -> None:
    assert {"LICENSE", "examples/application/c/classify.c"} <= linked_outside()


def test_each_walk_is_drawn_with_all_its_steps_and_keeps_its_table() -> None:
    text = (DOCS / "architecture.md").read_text()
    drawn = with_diagrams(text)
    walks = text.partition("## Four walks\n")[2].partition("\n## ")[0].split("\n**")[1:]
    steps = [re.findall(r"^\| `[\w/]+\.py:(\w+)` \|", walk, re.MULTILINE) for walk in walks]
    diagrams = [ElementTree.fromstring(found) for found in re.findall(r"<div>(<svg.*</svg>)</div>", drawn)]
    assert len(diagrams) == 4
    for diagram, functions in zip(diagrams, steps, strict=True):
        shown = [element.text for element in diagram.iter("text")]
        assert [text for text in shown if text in functions] == functions
        assert len([path for path in diagram.iter("path") if path.get("marker-end")]) == len(functions) - 1
    assert re.sub(r"<div><svg.*\n|\n(?=<div>)", "", drawn).replace("\n\n\n", "\n\n").split() == text.split()


@pytest.mark.slow
def test_the_site_is_built_strictly_and_fetches_nothing(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="the site is built with Python 3.11 or newer: pip install -e '.[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    built = sorted((tmp_path / "site").rglob("*.html"))
    assert len(built) > 40
    for page in built:
        html = page.read_text()
        fetched = re.findall(r"<(?:script|img|link|iframe|source)\b[^>]*?(?:src|href)=\"?(https?:[^\" >]+)", html)
        assert fetched == [], page
    styles = [path.read_text() for path in (tmp_path / "site").rglob("*.css")]
    assert styles
    assert not [style for style in styles if re.search(r"url\(['\"]?https?:|@import", style)]
    assert "classify.c" in (tmp_path / "site" / "application.html").read_text()
    assert "edgestill.device.Model.predict" in (tmp_path / "site" / "python.html").read_text()
    assert "var __index = " in (tmp_path / "site" / "search" / "search_index.js").read_text()[:40]
