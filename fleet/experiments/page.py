"""NAME.md: the result page of an experiment, rendered from NAME.json, and the index of a folder of pages.

The pages are Markdown, for which Jinja has no autoescape; `as_text` escapes every value in a template. Only the
experiment's `about` is Markdown (`| safe`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from fleet.experiments.base import Experiment
from fleet.page_templates import page_templates
from fleet.report.units import span

__all__ = ["INDEX_START", "as_text", "index", "markdown", "number"]

INDEX_START = "# Results\n\nPages made by `edgestill experiment`"


def markdown(experiment: Experiment, facts: Mapping[str, Any]) -> str:
    """The page."""
    template = _templates().get_template("page.md.j2")
    fields = {**facts, "name": facts["experiment"], "title": experiment.title, "about": experiment.about.strip()}
    return template.render(fields)


def index(pages: Sequence[Mapping[str, Any]]) -> str:
    """README.md of a folder of result pages, from their JSON files."""
    return _templates().get_template("index.md.j2").render(start=INDEX_START, pages=pages)


def _templates() -> Environment:
    filters: dict[str, Callable[..., str]] = {"number": number, "duration": partial(span, decimals=0)}
    return page_templates("fleet.experiments", autoescape=False, finalize=as_text, filters=filters)


def as_text(value: object) -> str:
    """Escape a value so that it stays in its line and table cell and is neither HTML nor a link; `Markup` is kept.

    >>> as_text("a|b <script> < [c](d)")
    'a&#124;b &lt;script> < &#91;c&#93;(d)'
    """
    if isinstance(value, Markup):
        return value
    line = re.sub(r"\s*[\r\n]\s*", " ", str(value))
    line = re.sub(r"<(?=[A-Za-z/!?])", "&lt;", line)  # otherwise it starts no tag
    return re.sub(r"[|\[\]]", lambda match: f"&#{ord(match[0])};", line)


def number(value: float | None, std: float | None = None) -> str:
    """Two decimals, with the standard deviation if there is one.

    >>> number(5.238, 0.1), number(None)
    ('5.24 ± 0.10', '')
    """
    if value is None:
        return ""
    return f"{value:.2f}" if std is None else f"{value:.2f} ± {std:.2f}"
