"""The aggregator's durable state, in one SQLite file.

Writes belong in `with journal.transaction():` and are durable when the block ends. One process writes rounds, updates
and models, the service; others read, or leave a `Command` for it.

    aggregator/storage/schema.py    the tables as SQL
    aggregator/storage/tables/      what is written to and read from each
    aggregator/storage/rows.py      their records
"""

from __future__ import annotations

from aggregator.storage.tables.base import RESTORE
from aggregator.storage.tables.commands import CommandTable
from aggregator.storage.tables.history import HistoryTable

__all__ = ["RESTORE", "Journal"]


class Journal(HistoryTable, CommandTable):
    """The journal in a file: devices, rounds, updates, models, commands."""
