"""NAME.md: the result page of an experiment, made of what NAME.json says, and the index of a folder of pages.

The pages are Markdown, for which Jinja has no autoescape; `as_text` escapes every value that a template shows. Only the
experiment's own `about` is Markdown (`| safe`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fleet.experiments.base import Experiment

__all__ = ["INDEX_START", "as_text", "duration", "index", "markdown", "number"]

INDEX_START = "# Results\n\nPages made by `edgestill experiment`"


def markdown(experiment: Experiment, facts: Mapping[str, Any]) -> str:
    """The page."""
    template = _templates().get_template("page.md.j2")
    said = {**facts, "name": facts["experiment"], "title": experiment.title, "about": experiment.about.strip()}
    return template.render(said)


def index(pages: Sequence[Mapping[str, Any]]) -> str:
    """README.md of a folder of result pages, given what their JSON files say."""
    return _templates().get_template("index.md.j2").render(start=INDEX_START, pages=pages)


def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("fleet.experiments"),
        autoescape=False,
        finalize=as_text,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"number": number, "duration": duration}
    return environment


def as_text(value: object) -> str:
    """A value that stays in its line and its table cell and is neither HTML nor a link; `Markup` is left as it is.

    >>> as_text("a|b <script> < [c](d)")
    'a&#124;b &lt;script> < &#91;c&#93;(d)'
    """
    if isinstance(value, Markup):
        return value
    line = re.sub(r"\s*[\r\n]\s*", " ", str(value))
    line = re.sub(r"<(?=[A-Za-z/!?])", "&lt;", line)  # what else follows it makes no tag
    return re.sub(r"[|\[\]]", lambda found: f"&#{ord(found[0])};", line)


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
