"""Commands that other processes leave for the service, and its answers."""

from __future__ import annotations

import time

from aggregator.storage.rows import Answer, Command
from aggregator.storage.tables.base import Table

__all__ = ["CommandTable"]


class CommandTable(Table):
    """Commands by number."""

    def ask(self, verb: str, argument: str = "") -> int:
        """Leave a command for the service; its number."""
        row = self.db.execute(
            "INSERT INTO commands (verb, argument, asked) VALUES (?, ?, ?)", (verb, argument, time.time())
        )
        assert row.lastrowid is not None
        return row.lastrowid

    def commands(self) -> list[Command]:
        """What is still to be done."""
        rows = self.db.execute("SELECT id, verb, argument FROM commands WHERE done IS NULL ORDER BY id")
        return [Command(id=r[0], verb=r[1], argument=r[2]) for r in rows]

    def answer(self, command: int, text: str, *, failed: bool = False) -> None:
        """The command is done, with this result, or could not be."""
        answer = Answer(text, failed).stored
        self.db.execute("UPDATE commands SET done = ?, answer = ? WHERE id = ?", (time.time(), answer, command))

    def answer_of(self, command: int) -> Answer | None:
        """What the service has answered, None until it has."""
        row = self.db.execute("SELECT answer FROM commands WHERE id = ?", (command,)).fetchone()
        return None if row is None or row[0] is None else Answer.read(row[0])
