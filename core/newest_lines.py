"""The newest lines of a service's log, in memory, for an operator who asks for them from elsewhere."""

from __future__ import annotations

import logging
from collections import deque
from datetime import datetime

__all__ = ["ROOT", "NewestLines", "one_line"]

ROOT = "edgestill"  # of all our loggers
LONGEST = 250  # characters of a line
MOST_BYTES = 64 * 1024  # of the lines that are handed out


class NewestLines(logging.Handler):
    """Keeps at most `most` lines while it is attached."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self._lines: deque[str] = deque(maxlen=most)

    def attach(self) -> None:
        """Begin to keep what is logged."""
        if self.most:
            logging.getLogger(ROOT).addHandler(self)

    def detach(self) -> None:
        """Keep no more."""
        logging.getLogger(ROOT).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one record."""
        text = record.getMessage().strip()
        if record.exc_info and record.exc_info[1] is not None:
            text += f": {type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        when = datetime.fromtimestamp(record.created)
        name = record.name.removeprefix(f"{ROOT}.")
        self._lines.append(one_line(f"{when:%Y-%m-%d %H:%M:%S} {record.levelname:<7s} {name}: {text}")[:LONGEST])

    def newest(self, count: int) -> tuple[str, ...]:
        """The newest lines, oldest first; fewer if they have many bytes."""
        found: list[str] = []
        size = 0
        for line in list(self._lines)[::-1][:count]:
            size += len(line.encode())
            if size > MOST_BYTES:
                break
            found.append(line)
        return tuple(reversed(found))


def one_line(text: str) -> str:
    """One printable line: what a message quotes cannot forge others."""
    return "".join(c if c.isprintable() else " | " if c == "\n" else "?" for c in text)
