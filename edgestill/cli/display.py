"""What displays share: a live picture on a terminal, lines elsewhere, nothing when quiet; and the time that is left."""

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
    """A context manager; subclasses say what is shown."""

    def __init__(self, *, quiet: bool) -> None:
        self.lines = not quiet and not err.is_terminal
        self.started = time.monotonic()
        self._terminal = not quiet and err.is_terminal
        self._live: Live | None = None

    def __enter__(self: D) -> D:
        if self._terminal:  # not earlier: it asks for the first picture at once
            self._live = Live(get_renderable=self._picture, console=err, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    @abstractmethod
    def picture(self) -> list[RenderableType]:
        """What a terminal shows now, from top to bottom."""

    def _picture(self) -> RenderableType:
        return Group(*self.picture())

    def line(self, text: str) -> None:
        """Say something where there is no terminal."""
        if self.lines:
            err.print(text, markup=False, soft_wrap=True)

    def left(self, done: float) -> str:
        """Guessed from the share that is done; nothing at the start and at the end."""
        if not 0 < done < 1:
            return ""
        seconds = (time.monotonic() - self.started) * (1 - done) / done
        return f"{seconds:.0f} s left" if seconds < 120 else f"{seconds / 60:.0f} min left"


def crop(text: str) -> Text:
    """One line of a terminal, however long the text is."""
    return Text(text, no_wrap=True, overflow="ellipsis")
