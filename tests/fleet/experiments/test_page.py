"""Result pages: what a value holds is text, in its own line and cell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from jinja2 import UndefinedError
from markdown_it import MarkdownIt

from fleet.experiments.base import Experiment
from fleet.experiments.page import as_text, index, markdown

EVIL = "<script>alert(1)</script>\n| x | [y](javascript:z) ![i](http://e/i.png) <http://e>"
EXPERIMENT = cast(Experiment, SimpleNamespace(title="Toy", about="About *it*, [here](x.md)."))


def facts(**change: Any) -> dict[str, Any]:
    cell = {
        "name": "a",
        "note": "",
        "paper": 1.5,
        "ours": 1.25,
        "std": None,
        "target": "<= 1",
        "met": False,
        "unit": "%",
    }
    said = {"experiment": "toy", "title": "Toy", "seeds": [0], "versions": {}, "seconds": 1.0, "parameters": {}}
    return {**said, "cells": [{**cell, **change.pop("cell", {})}], "not_measured": [], **change}


def rendered(text: str) -> str:
    """As HTML, by a renderer that lets HTML through and knows tables."""
    return cast(str, MarkdownIt("commonmark").enable("table").render(text))


@pytest.mark.parametrize(
    "change",
    [
        {"cell": {"name": EVIL}},
        {"cell": {"note": EVIL}},
        {"cell": {"target": EVIL}},
        {"not_measured": [EVIL]},
        {"versions": {EVIL: EVIL}},
        {"parameters": {EVIL: EVIL}},
        {"commits": [EVIL]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_value_is_neither_html_nor_a_link_nor_another_cell(change: dict[str, Any]) -> None:
    plain, made = (rendered(markdown(EXPERIMENT, facts(**c))) for c in ({}, change))
    assert "<script" not in made
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in made
    assert "x | [y](javascript:z) ![i](http://e/i.png) &lt;http://e&gt;" in made
    for tag in ("<a ", "<img ", "<td>", "<tr>"):
        assert made.count(tag) == plain.count(tag)


def test_the_index_takes_names_and_titles_from_files_as_text() -> None:
    made = rendered(index([facts(experiment="x](javascript:z) [y", title=EVIL)]))
    assert made.count("<td>") == 3
    assert 'href="x%5D%28javascript%3Az%29%20%5By.md"' in made
    assert made.count("<a ") == 2, "the page and the way to the docs"
    assert "<script" not in made


def test_what_an_experiment_says_about_itself_is_markdown() -> None:
    assert '<em>it</em>, <a href="x.md">here</a>' in rendered(markdown(EXPERIMENT, facts()))


def test_signs_of_targets_stay_readable() -> None:
    assert as_text("<= 1") == "<= 1"
    assert as_text("a_b > 2 ± 1 (`c`)") == "a_b > 2 ± 1 (`c`)"


def test_a_page_of_a_file_that_lacks_something_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="seconds"):
        markdown(EXPERIMENT, {key: value for key, value in facts().items() if key != "seconds"})
