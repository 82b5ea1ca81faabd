"""Trackers that follow a run, fail, hang and come back; the run never waits for them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from aggregator.tracking import follower
from aggregator.tracking.follower import Following
from aggregator.tracking.records import RoundRecord, TrackedRun
from tests.aggregator.running import wait_until

RUN = TrackedRun(name="run", settings={})


@dataclass
class Scripted:
    """A target whose tracker does as it is told."""

    name: str = "a"
    opened: list[str | None] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    ended: list[bool] = field(default_factory=list)
    fail: Callable[[int], None] = lambda number: None
    token: str = "t"

    def __str__(self) -> str:
        return self.name

    def open(self, run: TrackedRun, token: str | None) -> Any:
        self.opened.append(token)
        return self

    def log(self, record: RoundRecord) -> None:
        self.fail(record.round)
        self.rounds.append(record.round)

    def close(self, *, complete: bool) -> None:
        self.ended.append(complete)


class Rounds(list[RoundRecord]):
    """A run's records."""

    def add(self, *numbers: int) -> None:
        self.extend(RoundRecord(round=number, time=0.0) for number in numbers)

    def after(self, number: int) -> list[RoundRecord]:
        return [record for record in self if record.round > number]


@pytest.fixture
def rounds() -> Rounds:
    made = Rounds()
    made.add(1, 2)
    return made


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "FIRST_RETRY_S", 0.01)


def following(target: Scripted, rounds: Rounds, said: list[str], notes: Path | None = None) -> Following:
    targets: Any = [target]
    return Following(targets, RUN, rounds.after, notes=notes, warn=said.append)


def test_a_tracker_follows_to_the_end(rounds: Rounds) -> None:
    target, said = Scripted(), list[str]()
    with following(target, rounds, said) as all_of_them:
        wait_until(lambda: target.rounds == [1, 2], 120)
        rounds.add(3)
        all_of_them.wake()
        wait_until(lambda: target.rounds == [1, 2, 3], 120)
        rounds.add(4)  # nobody is woken for the last one
        all_of_them.complete = True
    assert (target.rounds, target.ended, target.opened, said) == ([1, 2, 3, 4], [True], [None], [])


def test_a_run_that_is_cut_is_said_to_be(rounds: Rounds) -> None:
    target = Scripted()
    with following(target, rounds, []):
        pass
    assert (target.rounds, target.ended) == ([1, 2], [False])


def test_an_outage_is_one_warning_and_costs_no_round(rounds: Rounds) -> None:
    target, said = Scripted(), list[str]()
    down = threading.Event()
    down.set()
    tries = []

    def fail(number: int) -> None:
        tries.append(number)
        if number > 1 and down.is_set():
            raise RuntimeError("no\nserver " + "x" * 500)

    target.fail = fail
    with following(target, rounds, said):
        wait_until(lambda: len(tries) > 4, 120)
        rounds.add(3)
        down.clear()
        wait_until(lambda: target.rounds == [1, 2, 3], 120)
    assert target.opened[0] is None
    assert set(target.opened[1:]) == {"t"}, "the same run"
    (warning,) = said
    assert warning.startswith("tracker a: round 2 is not written yet, and will be tried again: no server xxx")
    assert len(warning) < 300
    assert "\n" not in warning


def test_a_tracker_that_fails_is_tried_once_more_at_the_end(rounds: Rounds) -> None:
    def fail(number: int) -> None:
        raise RuntimeError

    target, said = Scripted(fail=fail), list[str]()
    with following(target, rounds, said):
        wait_until(lambda: len(target.opened) > 1, 120)
    assert target.rounds == []
    assert said == ["tracker a: round 1 is not written yet, and will be tried again: RuntimeError"]


def test_one_that_hangs_is_left_behind_and_others_are_not(rounds: Rounds) -> None:
    release = threading.Event()
    stuck, fine, said = Scripted("stuck", fail=lambda number: release.wait(120) and None), Scripted("fine"), list[str]()
    targets: Any = [stuck, fine]
    with Following(targets, RUN, rounds.after, goodbye_s=0.2, warn=said.append):
        wait_until(lambda: fine.rounds == [1, 2], 120)
    assert said == ["tracker stuck does not answer, and has the rounds up to 0 only"]
    assert (fine.ended, stuck.rounds) == ([False], [])
    release.set()


def test_a_restart_goes_on_after_the_last_round_that_was_written(rounds: Rounds, tmp_path: Path) -> None:
    notes = tmp_path / "trackers.json"
    with following(Scripted(), rounds, [], notes):
        pass
    assert json.loads(notes.read_text()) == {"a": {"token": "t", "round": 2}}
    rounds.add(3)
    again = Scripted()
    with following(again, rounds, [], notes):
        pass
    assert (again.opened, again.rounds) == (["t"], [3])


@pytest.mark.parametrize("text", ["", "[]", '{"a": 3}', '{"a": {"token": 5, "round": "x"}}', "\udcff"])
def test_damaged_notes_begin_anew(text: str, rounds: Rounds, tmp_path: Path) -> None:
    notes = tmp_path / "trackers.json"
    notes.write_bytes(text.encode(errors="surrogateescape"))
    target, said = Scripted(), list[str]()
    with following(target, rounds, said, notes):
        pass
    assert (target.opened, target.rounds, said) == ([None], [1, 2], [])


def test_an_end_that_fails_is_a_warning(rounds: Rounds) -> None:
    class Endless(Scripted):
        def close(self, *, complete: bool) -> None:
            raise OSError("gone")

    said: list[str] = []
    with following(Endless(), rounds, said):
        pass
    assert said == ["tracker a: its run could not be ended: gone"]
