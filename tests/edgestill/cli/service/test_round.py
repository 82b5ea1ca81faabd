"""`edgestill round`: what came of rounds, and giving up the open one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aggregator.config.fleet import load_fleet_config
from aggregator.storage.journal import Journal
from tests.aggregator.journals import a_round, an_update, asked
from tests.edgestill.cli.typed import run


@pytest.fixture
def journal(config: Path) -> Journal:
    return Journal(load_fleet_config(config).state / "journal.db")


def test_rounds_are_listed_newest_first_and_as_many_as_asked(
    config: Path, journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    journal.open_round(a_round(2, "abandoned", reason="skipped"), asked("pi-0", "pi-1"))
    journal.open_round(a_round(3), asked("pi-1"))
    _, out, _ = run(capsys, "round", "list", "--config", config, "--json")
    facts = [(r["number"], r["phase"], r["invited"], r["answered"]) for r in json.loads(out)]
    assert facts == [(3, "open", 1, 0), (2, "abandoned", 2, 0), (1, "closed", 1, 1)]
    _, out, _ = run(capsys, "round", "list", "--config", config, "--last", 1, "--json")
    assert [r["number"] for r in json.loads(out)] == [3]


def test_every_reason_of_a_round_is_in_its_row(
    config: Path, journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    journal.open_round(a_round(2, "abandoned", reason="no quorum"), asked("pi-0", "pi-1"))
    journal.add_update(an_update("pi-0", 2))
    journal.withdraw(2, "pi-0", "another shape")
    journal.add_failure(2, "pi-1", "disk full")
    said = " ".join(run(capsys, "round", "list", "--config", config)[1].split())
    for words in ("no quorum", "another shape", "disk full"):
        assert words.split()[0] in said, words
    _, out, _ = run(capsys, "round", "list", "--config", config, "--json")
    assert json.loads(out)[0]["excluded"] == {"pi-0": "another shape"}


def test_skip_waits_in_the_journal_for_an_aggregator_that_is_down(
    config: Path, journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "round", "skip", "--config", config)
    assert (code, "it will skip when it starts" in " ".join(out.split())) == (0, True)
    assert [(c.verb, c.argument) for c in journal.commands()] == [("skip", "")]
