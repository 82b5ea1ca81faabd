"""What both modes of the round engine derive from its state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aggregator.rounds.events import GivenJob, Later
from aggregator.rounds.state import (
    Phase,
    RoundState,
    Rules,
    Seen,
    eligible,
    enter,
    forget_presence,
    why_done,
)

pytestmark = pytest.mark.light
RULES = Rules(seed=0, prototypes=("mlp:fp32",), rounds=3, fraction=1.0, min_devices=1, quorum=0.5, deadline_s=10.0)
ASYNC = replace(RULES, buffer=5)
ONLINE = Seen(status="online", prototype="mlp:fp32")


def test_a_quorum_is_of_the_invited_devices_or_of_the_buffer() -> None:
    assert RoundState(rules=RULES, invited=dict.fromkeys("abc", "mlp:fp32")).needed == 2
    assert RoundState(rules=ASYNC).needed == 3


def test_who_is_awaited() -> None:
    invited = RoundState(rules=RULES, phase=Phase.COLLECTING, round=2, invited=dict.fromkeys("ab", "mlp:fp32"))
    assert (invited.awaits("a", 2), invited.awaits("a", 1), invited.awaits("z", 2)) == (True, False, False)
    job = GivenJob(number=1, round=2, version=1, prototype="mlp:fp32", deadline=5.0)
    working = RoundState(rules=ASYNC, round=4, working={"a": job})
    assert (working.round_of("a"), working.round_of("b")) == (2, 4)
    assert (working.awaits("a", 2), working.awaits("a", 4), working.awaited) == (True, False, {"a"})


def test_eligible_are_known_prototypes_that_are_online_and_free_to_work() -> None:
    devices = {
        "a": ONLINE,
        "b": replace(ONLINE, status="lost"),
        "c": replace(ONLINE, revoked=True),
        "d": replace(ONLINE, waiting=True),
        "e": replace(ONLINE, muted_until=9.0),
        "f": replace(ONLINE, prototype="cnn:w1"),
    }
    state = RoundState(rules=RULES, devices=devices)
    assert eligible(state, 8.0) == {"a": "mlp:fp32"}
    assert eligible(state, 9.0) == dict.fromkeys("ae", "mlp:fp32")


def test_without_a_broker_nobody_is_online_and_those_who_were_are_waited_for() -> None:
    state = forget_presence(RoundState(rules=RULES, devices={"a": ONLINE, "b": replace(ONLINE, revoked=True)}), 7.0)
    assert {seen.status for seen in state.devices.values()} == {"unknown"}
    assert (state.unheard, state.settled) == ({"a"}, 7.0)


def test_while_a_model_is_built_the_round_goes_on_after_it() -> None:
    state = RoundState(rules=RULES, phase=Phase.STARTING, then=Phase.COLLECTING)
    assert (state.in_round, enter(state, Phase.FUSING).then) == (Phase.COLLECTING, Phase.FUSING)
    assert enter(replace(state, phase=Phase.COLLECTING), Phase.WAITING).in_round is None


def test_the_end_of_a_round_is_the_later_deadline_of_those_who_are_awaited() -> None:
    later = Later(frozenset("a"), 20.0)
    state = RoundState(rules=RULES, invited=dict.fromkeys("ab", "mlp:fp32"), deadline=10.0, later=later)
    assert (state.ends, replace(state, answered=frozenset("a")).ends) == (20.0, 10.0)


def test_why_no_round_follows() -> None:
    assert why_done(RULES, 2, {}) == ""
    assert why_done(RULES, 3, {}) == "all 3 rounds are done"
    assert why_done(replace(RULES, target_accuracy=0.5), 1, {"mlp:fp32": 0.5}) == "target accuracy 0.5 reached"
