"""Transactions, facts, and what a file that is no journal is answered with."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from aggregator.storage.journal import Journal
from aggregator.storage.tables.base import read_json
from core.errors import ConfigError, StorageError
from tests.aggregator.journals import a_round, asked

pytestmark = pytest.mark.light


def test_a_transaction_is_all_or_nothing(journal: Journal) -> None:
    def fail() -> None:
        with journal.transaction():
            journal.open_round(a_round(), asked("a"))
            journal.open_round(a_round(), asked("a"))

    with pytest.raises(sqlite3.IntegrityError):
        fail()
    assert journal.last_round() is None


def test_a_commit_survives_the_kill_of_its_process(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from aggregator.storage.journal import Journal\n"
        "j = Journal(Path(sys.argv[1]))\n"
        "with j.transaction(): j.put('fact', 'kept')\n"
        "j.db.execute('BEGIN'); j.put('fact', 'not committed')\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "journal.db")], check=False)
    assert done.returncode == -9
    assert Journal(tmp_path / "journal.db").get("fact") == "kept"


def test_a_reader_cannot_write_and_does_not_make_a_journal(tmp_path: Path, journal: Journal) -> None:
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        Journal(tmp_path / "journal.db", read_only=True).put("a", "b")
    with pytest.raises(ConfigError, match="there is no journal"):
        Journal(tmp_path / "other.db", read_only=True)
    assert not (tmp_path / "other.db").exists()


def test_after_a_block_that_fails_the_next_one_is_written(journal: Journal) -> None:
    def fail() -> None:
        with journal.transaction():
            journal.put("fact", "not kept")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert journal.get("fact", "none") == "none"
    with journal.transaction():
        journal.put("fact", "kept")
    assert journal.get("fact") == "kept"


def test_where_not_even_the_rollback_can_be_written_the_journal_is_opened_anew(journal: Journal) -> None:
    class FullDisk:
        """A connection that writes nothing more, and is never out of its transaction."""

        in_transaction = True

        def __init__(self, db: sqlite3.Connection) -> None:
            self.db = db
            self.close = db.close

        def execute(self, statement: str, *values: object) -> sqlite3.Cursor:
            if statement in ("COMMIT", "ROLLBACK"):
                raise sqlite3.OperationalError("database or disk is full")
            return self.db.execute(statement, *values)

    def fail() -> None:
        with journal.transaction():
            journal.put("fact", "not kept")

    broken = FullDisk(journal.db)
    journal.db = broken  # type: ignore[assignment]
    with pytest.raises(sqlite3.OperationalError, match="disk is full"):
        fail()
    assert journal.db is not broken
    with journal.transaction():
        assert journal.get("fact", "none") == "none"
        journal.put("fact", "kept")
    assert journal.get("fact") == "kept"


@pytest.mark.parametrize("damaged", ["{", "", None, b"\xff"])
def test_damage_in_a_column_is_told_with_the_way_out(damaged: str | bytes | None) -> None:
    with pytest.raises(StorageError, match=r"damaged record: .*; put a backup back with `edgestill.*restore`$"):
        read_json(damaged)
