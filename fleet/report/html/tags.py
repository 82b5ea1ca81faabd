"""HTML as function calls: every text is escaped, unless it is `Markup`, which only `tag` makes."""

from __future__ import annotations

import html
from collections.abc import Iterable

__all__ = ["Markup", "join", "tag"]

VOID = ("img", "meta", "source")


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *inside: str, **attributes: str | None) -> Markup:
    """An element; `class_` is written `class`, other underscores become hyphens, None leaves an attribute out.

    >>> tag("p", "a < b", tag("em", "!"), class_="x")
    '<p class="x">a &lt; b<em>!</em></p>'
    """
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    start = f"<{name}{said}>"
    return Markup(start if name in VOID else f"{start}{join(inside)}</{name}>")


def join(pieces: Iterable[str]) -> Markup:
    """Pieces one after the other, what is no markup escaped."""
    return Markup("".join(piece if isinstance(piece, Markup) else html.escape(piece) for piece in pieces))
