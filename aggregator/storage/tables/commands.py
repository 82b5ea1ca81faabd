"""Commands of other processes to the service, and its answers."""

from __future__ import annotations

import time

from aggregator.storage.rows import Answer, Command
from aggregator.storage.tables.base import Table

__all__ = ["CommandTable"]


class CommandTable(Table):
    """Commands by number."""

    def ask(self, verb: str, argument: str = "") -> int:
        """Add a command; returns its number."""
        row = self.db.execute(
            "INSERT INTO commands (verb, argument, asked) VALUES (?, ?, ?)", (verb, argument, time.time())
        )
        assert row.lastrowid is not None
        return row.lastrowid

    def commands(self) -> list[Command]:
        """Commands without an answer."""
        rows = self.db.execute("SELECT id, verb, argument FROM commands WHERE done IS NULL ORDER BY id")
        return [Command(id=r[0], verb=r[1], argument=r[2]) for r in rows]

    def answer(self, command: int, text: str, *, failed: bool = False) -> None:
        """Answer a command: its result, or why it failed."""
        answer = Answer(text, failed).stored
        self.db.execute("UPDATE commands SET done = ?, answer = ? WHERE id = ?", (time.time(), answer, command))

    def answer_of(self, command: int) -> Answer | None:
        """The service's answer; None before there is one."""
        row = self.db.execute("SELECT answer FROM commands WHERE id = ?", (command,)).fetchone()
        return None if row is None or row[0] is None else Answer.read(row[0])
