"""Write a report: `FILE.html`, and `FILE-NAME.png` beside it for every figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from core.errors import ConfigError
from core.files import write_atomic
from fleet.report.facts import RunFacts
from fleet.report.figures.catalogue import draw_all
from fleet.report.html.page import page

__all__ = ["MOST_RUNS", "check_out", "write_report"]

MOST_RUNS = 24  # more panels cannot be compared; a sweep's table can


def check_out(path: Path) -> None:
    """Refuse a file that cannot be written, before any work is done."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"--out {path}: the report is HTML; give a name that ends in .html")
    if path.is_dir() or not path.parent.is_dir():
        raise ConfigError(f"--out {path}: give the name of a file in a folder that exists")


def write_report(runs: Sequence[RunFacts], path: Path, *, target: float) -> list[Path]:
    """All files of the report, the page first; everything is drawn before anything is written."""
    pictures = draw_all(runs, target)
    text = page(runs, pictures, target)
    files = [path.with_name(f"{path.stem}-{picture.name}.png") for picture in pictures]
    for file, picture in zip(files, pictures, strict=True):
        write_atomic(file, picture.light)
    write_atomic(path, text)
    return [path, *files]
