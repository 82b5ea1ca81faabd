"""Base of displays: a live display on a terminal, lines elsewhere, nothing if quiet; and the remaining time."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TypeVar

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from edgestill.cli.output import err

__all__ = ["Display", "crop"]

D = TypeVar("D", bound="Display")


class Display(ABC):
    """A context manager; subclasses define the display."""

    def __init__(self, *, quiet: bool) -> None:
        self.lines = not quiet and not err.is_terminal
        self.started = time.monotonic()
        self._terminal = not quiet and err.is_terminal
        self._live: Live | None = None

    def __enter__(self: D) -> D:
        if self._terminal:  # not earlier: it renders the first display at once
            self._live = Live(get_renderable=self._picture, console=err, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    @abstractmethod
    def picture(self) -> list[RenderableType]:
        """The current display on a terminal, from top to bottom."""

    def _picture(self) -> RenderableType:
        return Group(*self.picture())

    def line(self, text: str) -> None:
        """Print a line if there is no terminal."""
        if self.lines:
            err.print(text, markup=False, soft_wrap=True)

    def left(self, done: float) -> str:
        """The remaining time, estimated from the completed share; empty at the start and at the end."""
        if not 0 < done < 1:
            return ""
        seconds = (time.monotonic() - self.started) * (1 - done) / done
        return f"{seconds:.0f} s left" if seconds < 120 else f"{seconds / 60:.0f} min left"


def crop(text: str) -> Text:
    """The text cropped to one line of the terminal."""
    return Text(text, no_wrap=True, overflow="ellipsis")
