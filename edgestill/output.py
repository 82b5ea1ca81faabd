"""How commands speak: facts to stdout (`--json`: one JSON document), progress and errors to stderr."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["err", "out", "print_json", "print_table"]

WIDEST = 1000  # columns


def _literal(text: str) -> str:
    """Without control characters: a terminal obeys them, and devices and files choose some of the words."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)


class _Console(Console):
    """A console whose plain texts cannot steer the terminal."""

    def print(self, *objects: Any, **options: Any) -> None:
        """As rich prints it."""
        super().print(*(_literal(o) if isinstance(o, str) else o for o in objects), **options)


out = _Console(highlight=False)
err = _Console(stderr=True, highlight=False)


def print_json(facts: Any) -> None:
    """One JSON document on stdout, and nothing else."""
    out.file.write(json.dumps(facts, indent=2, sort_keys=False) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, whole: bool = False) -> None:
    """A table for people; `whole`: numbers are not cut to fit, lines may be longer than the terminal is wide."""
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=whole)
    for row in rows:
        table.add_row(*(Text(_literal(str(cell))) for cell in row))
    if not whole:
        out.print(table)
        return
    needed = out.measure(table, options=out.options.update(max_width=WIDEST)).maximum
    Console(file=out.file, width=max(out.width, needed), highlight=False).print(table)
