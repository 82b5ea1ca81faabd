"""What is committed is there after a reopening, and the rules of the tables hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.storage.journal import Journal
from core.errors import ConfigError
from tests.aggregator.journals import HYPER, a_round, an_update, asked

pytestmark = pytest.mark.light


def test_a_round_its_invitations_and_updates_come_back_as_they_were(tmp_path: Path, journal: Journal) -> None:
    with journal.transaction():
        journal.open_round(a_round(bits=4, update="delta"), asked("b", "a"))
        journal.add_update(an_update("b"))
        journal.add_update(an_update("a"))
    again = Journal(tmp_path / "journal.db", read_only=True)
    assert again.last_round() == a_round(bits=4, update="delta")
    assert again.last_round().hyper == HYPER
    assert [i.device for i in again.invitations(1)] == ["a", "b"]
    assert again.updates(1) == [an_update("a"), an_update("b")]


def test_it_writes_ahead_and_waits_for_the_disk(journal: Journal) -> None:
    assert journal.db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert journal.db.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


def test_a_journal_of_another_schema_is_refused(tmp_path: Path, journal: Journal) -> None:
    journal.db.execute("PRAGMA user_version = 99")
    with pytest.raises(ConfigError, match="schema 99, this edgestill reads 5; use the newer version"):
        Journal(tmp_path / "journal.db")


def test_a_file_that_is_no_journal_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"x" * 5000)
    with pytest.raises(ConfigError, match=r"journal.db: the journal cannot be opened"):
        Journal(tmp_path / "journal.db")
