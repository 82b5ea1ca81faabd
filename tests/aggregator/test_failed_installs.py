"""Why boards could not install their agents: the newest report counts, until the agent is online."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aggregator.failed_installs import FailedInstalls, failed_installs
from aggregator.storage.journal import Journal
from wire.messages import Installing

pytestmark = pytest.mark.light
NO_ROOM, NO_WHEEL = Installing(number=100, reason="no room"), Installing(number=101, reason="no wheel")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "journal.db")
    yield journal
    journal.close()


def test_the_newest_report_is_kept_and_an_older_one_changes_nothing(journal: Journal) -> None:
    installs = FailedInstalls(journal, lambda: 5.0)
    assert installs.heard("a", NO_ROOM, online=False)
    assert not installs.heard("a", NO_ROOM, online=False)
    assert installs.heard("a", NO_WHEEL, online=False)
    assert not installs.heard("a", NO_ROOM, online=False)
    assert failed_installs(journal) == {}
    installs.keep()
    assert failed_installs(journal) == {"a": "no wheel"}


def test_it_ends_when_the_agent_is_online_and_a_replay_does_not_bring_it_back(journal: Journal) -> None:
    installs = FailedInstalls(journal, lambda: 5.0)
    installs.heard("a", NO_WHEEL, online=False)
    installs.online("a")
    installs.online("b")
    installs.keep(at_once=True)
    again = FailedInstalls(journal, lambda: 6.0)  # after a restart
    for report in (NO_ROOM, NO_WHEEL):
        assert not again.heard("a", report, online=False)
    again.keep(at_once=True)
    assert failed_installs(journal) == {}
    assert again.heard("a", Installing(number=102, reason="once more"), online=False)


def test_a_report_about_a_device_that_is_online_is_not_believed(journal: Journal) -> None:
    installs = FailedInstalls(journal, lambda: 5.0)
    assert not installs.heard("a", NO_WHEEL, online=True)
    installs.keep(at_once=True)
    assert failed_installs(journal) == {}


def test_reports_are_written_once_a_second_at_the_most(journal: Journal) -> None:
    now = 100.0
    installs = FailedInstalls(journal, lambda: now)
    installs.heard("a", NO_ROOM, online=False)
    installs.keep()
    installs.heard("a", NO_WHEEL, online=False)
    installs.keep()
    assert failed_installs(journal) == {"a": "no room"}
    now = 101.0
    installs.keep()
    assert failed_installs(journal) == {"a": "no wheel"}
