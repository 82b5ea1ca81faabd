"""How commands speak: facts to stdout (`--json`: one JSON document), progress and errors to stderr."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["err", "out", "print_json", "print_table"]

WIDEST = 1000  # columns
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def print_json(facts: Any) -> None:
    """One JSON document on stdout, and nothing else."""
    out.file.write(json.dumps(facts, indent=2, sort_keys=False) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, whole: bool = False) -> None:
    """A table for people; `whole`: numbers are not cut to fit, lines may be longer than the terminal is wide."""
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=whole)
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    if not whole:
        out.print(table)
        return
    needed = out.measure(table, options=out.options.update(max_width=WIDEST)).maximum
    Console(file=out.file, width=max(out.width, needed), highlight=False).print(table)
