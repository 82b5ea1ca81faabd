"""Output of commands: results to stdout (`--json`: one JSON document), progress and errors to stderr.

Much of the output is untrusted text: file names, `created` of a kit, reports of devices. `out` and `err` do not
interpret markup (`[red]`), and print control characters, which could form terminal escapes, as `�`.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

__all__ = ["err", "one_line", "out", "plain", "print_json", "print_table", "print_whole"]

WIDEST = 100_000  # columns
HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # control characters, bidirectional marks, surrogates


def plain(text: str) -> str:
    """`text` without control characters; line breaks and tabs stay.

    >>> plain("a\\x1b[31mb"), plain("a\\nb")
    ('a�[31mb', 'a\\nb')
    """
    if text.isprintable():
        return text
    return "".join("�" if c not in "\n\t" and unicodedata.category(c) in HIDDEN else c for c in text)


def one_line(text: object) -> str:
    """Untrusted text as a part of one line: line breaks are replaced."""
    return plain(" ".join(str(text).split()))


class PlainConsole(Console):
    """A console that prints text literally: no markup, no emoji codes, no control characters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich renders, whose own cursor movements are marked as control segments."""
        for segment in super().render(renderable, options):
            text = segment.text
            yield segment if segment.control or text.isprintable() else segment._replace(text=plain(text))


out = PlainConsole()
err = PlainConsole(stderr=True)


def print_json(facts: Any) -> None:
    """Print one JSON document to stdout."""
    out.file.write(json.dumps(facts, indent=2, sort_keys=False) + "\n")


def print_whole(shown: RenderableType) -> None:
    """Print without wrapping or cutting anything, whatever the width."""
    needed = out.measure(shown, options=out.options.update(max_width=WIDEST)).maximum
    PlainConsole(file=out.file, width=max(out.width, needed)).print(shown)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, whole: bool = False) -> None:
    """Print a table; with `whole`, or if no terminal reads it, lines may be longer than the terminal is wide."""
    whole = whole or not out.is_terminal
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=whole)
    for row in rows:
        table.add_row(*(one_line(cell) for cell in row))
    print_whole(table) if whole else out.print(table)
