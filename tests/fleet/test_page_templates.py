"""Templates of pages: an unknown name is an error, values are escaped or finalized, filters are there."""

from __future__ import annotations

import pytest
from jinja2 import UndefinedError

from fleet.page_templates import page_templates


def test_html_is_escaped_and_an_unknown_name_is_an_error() -> None:
    made = page_templates("fleet.report.html", autoescape=True, filters={"twice": lambda text: text * 2})
    assert made.from_string("{{ a | twice }}\n{% if a %}\nb\n{% endif %}\n").render(a="<") == "&lt;&lt;\nb\n"
    with pytest.raises(UndefinedError, match="'b' is undefined"):
        made.from_string("{{ b }}").render(a="x")


def test_markdown_values_go_through_finalize() -> None:
    made = page_templates("fleet.experiments", autoescape=False, filters={}, finalize=lambda value: f"[{value}]")
    assert made.from_string("{{ a }}").render(a="<x>") == "[<x>]"
    assert "index.md.j2" in made.list_templates()
