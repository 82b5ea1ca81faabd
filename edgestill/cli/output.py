"""How commands speak: facts to stdout (`--json`: one JSON document), progress and errors to stderr.

Much of what is printed was written by others: names of files, `created` of a kit, what devices report. `out` and `err`
take no text for markup (`[red]`), and show control characters, of which terminal escapes are made, as `�`.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

__all__ = ["err", "one_line", "out", "plain", "print_json", "print_table"]

WIDEST = 1000  # columns
HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # controls, marks that turn the direction of text, halves of characters


def plain(text: str) -> str:
    """`text` with nothing in it that a terminal would obey; line breaks and tabs stay.

    >>> plain("a\\x1b[31mb"), plain("a\\nb")
    ('a�[31mb', 'a\\nb')
    """
    if text.isprintable():
        return text
    return "".join("�" if c not in "\n\t" and unicodedata.category(c) in HIDDEN else c for c in text)


def one_line(text: object) -> str:
    """What somebody else has written, as a part of a line of ours: it cannot begin another."""
    return plain(" ".join(str(text).split()))


class PlainConsole(Console):
    """A console whose texts are texts: no markup, no emoji codes, and nothing in them that a terminal obeys."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich does it, where cursor movements of its own are marked as such."""
        for segment in super().render(renderable, options):
            text = segment.text
            yield segment if segment.control or text.isprintable() else segment._replace(text=plain(text))


out = PlainConsole()
err = PlainConsole(stderr=True)


def print_json(facts: Any) -> None:
    """One JSON document on stdout, and nothing else."""
    out.file.write(json.dumps(facts, indent=2, sort_keys=False) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, whole: bool = False) -> None:
    """A table for people; `whole`: numbers are not cut to fit, lines may be longer than the terminal is wide."""
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=whole)
    for row in rows:
        table.add_row(*(one_line(cell) for cell in row))
    if not whole:
        out.print(table)
        return
    needed = out.measure(table, options=out.options.update(max_width=WIDEST)).maximum
    PlainConsole(file=out.file, width=max(out.width, needed)).print(table)
