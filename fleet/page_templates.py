"""Jinja templates of a package, as all pages use them: an unknown name is an error, a block leaves no empty line."""

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
    """Those of `package`'s folder templates/; `finalize` is applied to every value that is shown."""
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
