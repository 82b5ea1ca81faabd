"""Devices that are slowed down: invited as others, with a later deadline, or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aggregator.config.fleet import load_fleet_config
from aggregator.downlink.instructions import instructions
from aggregator.rounds.engine import step
from aggregator.rounds.events import Extend, Fuse, Later, Open, StateHeard, Stored, Throttled, Tick
from aggregator.rounds.restore import restore, rules_of
from aggregator.rounds.state import Phase, RoundState, eligible
from aggregator.storage.journal import Journal
from tests.aggregator.journals import a_model, a_round, asked
from tests.aggregator.rounds.test_engine import after, waiting
from tests.aggregator.scripted import write_fleet
from transport.config import BrokerConfig
from wire.messages import Job

pytestmark = pytest.mark.light
SLOW = frozenset("d")


def opened(**rules: object) -> RoundState:
    """Four devices, of which d is slowed down; the deadline is 1100, the later one 1300."""
    state, _ = after(waiting(throttled_deadline=3.0, **rules), Throttled("d", True))
    return state


@pytest.mark.parametrize(("how", "names"), [("as-others", "abcd"), ("later", "abcd"), ("leave-out", "abc")])
def test_who_is_invited(how: str, names: str) -> None:
    assert "".join(eligible(opened(throttled=how), 1000.0)) == names


def test_a_device_that_is_no_longer_slowed_down_is_invited_again() -> None:
    state, _ = after(opened(throttled="leave-out"), Throttled("d", False))
    assert "d" in eligible(state, 1000.0)


def test_one_that_has_gone_and_come_is_still_slowed_down() -> None:
    state, _ = after(opened(throttled="leave-out"), StateHeard("d", "lost", 1), StateHeard("d", "online", 2))
    assert "d" not in eligible(state, 1000.0)


def test_too_few_others_are_waited_for() -> None:
    state, actions = step(opened(throttled="leave-out", min_devices=4), Tick(1000.0))
    assert (state.phase, actions) == (Phase.WAITING, [])


def test_its_deadline_is_later_and_the_round_waits_for_it_alone() -> None:
    state, (action,) = step(opened(throttled="later"), Tick(1000.0))
    assert action == Open(1, state.invited, 1100.0, Later(SLOW, 1300.0))
    assert [state.deadline_of(device) for device in "ad"] == [1100.0, 1300.0]
    state, _ = after(state, Stored("a", 1), Stored("b", 1))
    state, actions = step(state, Tick(1299.0))  # c is lost, and d may still answer
    assert (state.phase, actions) == (Phase.COLLECTING, [])
    assert after(state, Stored("d", 1), Tick(1299.0))[1] == [Fuse(1)]
    assert step(state, Tick(1300.0))[1] == [Fuse(1)]


def test_without_it_the_round_ends_as_before() -> None:
    state, _ = step(opened(throttled="later"), Tick(1000.0))
    state, _ = after(state, Stored("a", 1), Stored("d", 1))
    assert step(state, Tick(1100.0))[1] == [Fuse(1)]
    fast, _ = step(opened(throttled="as-others"), Tick(1000.0))
    assert fast.later is None


def test_an_extended_round_has_one_deadline() -> None:
    state, _ = step(opened(throttled="later"), Tick(1000.0))
    state, actions = step(state, Tick(1300.0))
    assert actions == [Extend(1, 1400.0)]
    assert state.deadline_of("d") == 1400.0


def test_the_later_deadline_survives_a_restart_and_is_in_the_job(tmp_path) -> None:
    devices = ["pi-0", "pi-1"]
    config = load_fleet_config(write_fleet(tmp_path, BrokerConfig(), devices, round='throttled = "later"'))
    journal = Journal(tmp_path / "journal.db")
    with journal.transaction():
        for prototype in config.prototypes:
            journal.add_model(a_model(prototype, prototype))
        for device in devices:
            journal.note_device(device, status="online", prototype="cnn:w1")
        journal.open_round(a_round(1, deadline=4e9), asked(*devices, prototype="cnn:w1", model="cnn:w1"))
        journal.set_later(1, 5e9, ["pi-1"])
    state = restore(journal, rules_of(config), devices, 1000.0)
    assert (state.rules.throttled, state.later) == ("later", Later(frozenset({"pi-1"}), 5e9))
    jobs = instructions(state, journal, 1)
    assert [job.deadline for job in jobs.values() if isinstance(job, Job)] == [4e9, 5e9]
    with journal.transaction():
        journal.set_round(1, extended=1)
    assert restore(journal, rules_of(config), devices, 1000.0).later is None
    assert journal.later(2) is None
    assert replace(state, later=None).ends == 4e9
