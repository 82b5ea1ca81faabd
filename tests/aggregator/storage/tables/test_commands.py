"""Commands and their answers, between two processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.storage.journal import Journal
from aggregator.storage.rows import Answer

pytestmark = pytest.mark.light


def test_a_command_of_another_process_is_found_and_answered(tmp_path: Path, journal: Journal) -> None:
    other = Journal(tmp_path / "journal.db")
    number = other.ask("revoke", "pi-07")
    (command,) = journal.commands()
    assert (command.id, command.verb, command.argument) == (number, "revoke", "pi-07")
    assert other.answer_of(number) is None
    journal.answer(number, "revoked")
    assert journal.commands() == []
    assert other.answer_of(number) == Answer("revoked")
    failed = other.ask("revoke", "pi-08")
    journal.answer(failed, "no such device", failed=True)
    assert other.answer_of(failed) == Answer("no such device", failed=True)


def test_commands_are_done_in_the_order_in_which_they_were_left(journal: Journal) -> None:
    first, second, third = (journal.ask("revoke", name) for name in ("z", "a", "m"))
    journal.answer(second, "done")
    assert [(c.id, c.argument) for c in journal.commands()] == [(first, "z"), (third, "m")]


def test_a_number_that_nobody_was_given_has_no_answer_and_an_empty_answer_is_one(journal: Journal) -> None:
    number = journal.ask("close")
    assert journal.answer_of(number + 1) is None
    journal.answer(number, "")
    assert journal.answer_of(number) == Answer("")
