"""Writes a report: `FILE.html`, and `FILE-NAME.png` for every figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from core.errors import ConfigError
from core.files import write_atomic
from fleet.report.facts import RunFacts
from fleet.report.figures.catalogue import draw_all
from fleet.report.html.page import page

__all__ = ["MOST_RUNS", "check_out", "write_report"]

MOST_RUNS = 24  # more panels are not readable; use a sweep's table


def check_out(path: Path) -> None:
    """Reject a file that cannot be written, before any work."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"--out {path}: the report is HTML; give a name that ends in .html")
    if path.is_dir() or not path.parent.is_dir():
        raise ConfigError(f"--out {path}: give the name of a file in a folder that exists")


def write_report(runs: Sequence[RunFacts], path: Path, *, target: float) -> list[Path]:
    """Write all files of the report, the page first; everything is drawn before the first write."""
    pictures = draw_all(runs, target)
    text = page(runs, pictures, target)
    files = [path.with_name(f"{path.stem}-{picture.name}.png") for picture in pictures]
    for file, picture in zip(files, pictures, strict=True):
        write_atomic(file, picture.light)
    write_atomic(path, text)
    return [path, *files]
