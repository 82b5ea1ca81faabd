"""What a display shows, for its tests."""

from __future__ import annotations

import io

from rich.console import Console, Group

from edgestill.cli.display import Display

__all__ = ["shown"]


def shown(display: Display, width: int = 100) -> str:
    """What a terminal of so many columns would show now."""
    console = Console(file=io.StringIO(), width=width)
    console.print(Group(*display.picture()))
    return console.file.getvalue()
