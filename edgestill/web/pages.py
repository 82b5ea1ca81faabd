"""The templates of the page, and how they write numbers and times."""

from __future__ import annotations

from datetime import datetime

from jinja2 import Environment, PackageLoader, StrictUndefined

from core.durations import coarse

__all__ = ["templates"]


def templates() -> Environment:
    """Every value is escaped; a name that is not defined is an error."""
    environment = Environment(
        loader=PackageLoader("edgestill.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "moment": moment, "coarse": coarse, "bytes": size}
    return environment


def percent(value: float | None) -> str:
    """
    >>> percent(0.91234), percent(None)
    ('91.2 %', '')
    """
    return "" if value is None else f"{100 * value:.1f} %"


def moment(seconds: float | None) -> str:
    """A time of this machine's zone.

    >>> moment(None)
    ''
    """
    return f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M:%S}" if seconds else ""


def size(count: float | None) -> str:
    """
    >>> size(1234567), size(None)
    ('1,234,567', '')
    """
    return "" if count is None else f"{int(count):,}"
