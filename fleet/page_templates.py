"""The Jinja environment of all pages: an undefined name is an error, blocks leave no empty lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

__all__ = ["page_templates"]


def page_templates(
    package: str,
    *,
    autoescape: bool,
    filters: Mapping[str, Callable[..., Any]],
    finalize: Callable[..., Any] | None = None,
) -> Environment:
    """The templates in the `templates/` folder of `package`; `finalize` is applied to every value that is rendered."""
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=autoescape,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= filters
    return environment
