"""The base of all tables of the journal: the SQLite file, transactions, values by name, rows and columns."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from aggregator.storage.schema import connect
from core.errors import StorageError

__all__ = ["RESTORE", "Table", "columns_of", "read_json"]

RESTORE = "put a backup back with `edgestill aggregator restore`"


class Table:
    """An open journal."""

    def __init__(self, path: Path, *, read_only: bool = False, timeout: float = 10.0) -> None:
        self._open = lambda: connect(path, read_only=read_only, timeout=timeout)
        self.db = self._open()

    def close(self) -> None:
        """Close the file."""
        self.db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction: all writes of the block, durably, or none of them, even if the commit fails."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.db.execute("COMMIT")
        finally:
            if self.db.in_transaction:
                self._roll_back()

    def _roll_back(self) -> None:
        """Roll back a failed transaction; if that fails too, open a new connection."""
        try:
            self.db.execute("ROLLBACK")
        except sqlite3.Error:
            self.db.close()
            self.db = self._open()

    # values by name

    def get(self, key: str, default: str = "") -> str:
        """A value by name."""
        row = self.db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return default if row is None else str(row[0])

    def put(self, key: str, value: str) -> None:
        """Store a value."""
        self.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def _rows(self, table: str, where: str, *values: Any) -> list[dict[str, Any]]:
        cursor = self.db.execute(f"SELECT * FROM {table} WHERE {where}", values)
        names = [column[0] for column in cursor.description if column[0] not in _HIDDEN.get(table, ())]
        return [dict(zip(names, _visible(row, cursor, table), strict=True)) for row in cursor]

    def _exists(self, rest: str, *values: Any) -> bool:
        return self.db.execute(f"SELECT 1 FROM {rest} LIMIT 1", values).fetchone() is not None

    def _insert(self, table: str, columns: dict[str, Any]) -> None:
        names = ", ".join(f'"{name}"' for name in columns)
        marks = ", ".join("?" * len(columns))
        self.db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(columns.values()))


#: Columns that are not part of any record.
_HIDDEN = {"invitations": ("round",), "models": ("retained",), "updates": ("number", "counted")}


def _visible(row: Sequence[Any], cursor: sqlite3.Cursor, table: str) -> list[Any]:
    hidden = _HIDDEN.get(table, ())
    return [value for value, column in zip(row, cursor.description, strict=True) if column[0] not in hidden]


def columns_of(row: Any) -> dict[str, Any]:
    """A record as the columns of its table."""
    return {f.name: getattr(row, f.name) for f in fields(row)}


def read_json(text: Any) -> Any:
    """The value of a column; StorageError if it is damaged."""
    try:
        return json.loads(text)
    except (TypeError, ValueError) as error:
        raise StorageError(f"the journal holds a damaged record: {error}; {RESTORE}") from None
