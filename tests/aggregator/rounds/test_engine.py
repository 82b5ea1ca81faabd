"""Every rule of the round engine, event by event."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from aggregator.rounds.engine import judge, step
from aggregator.rounds.events import (
    Abandon,
    AboutHeard,
    Allowed,
    BrokerConnected,
    BrokerLost,
    Close,
    Extend,
    Finish,
    Fuse,
    Fused,
    GaveUp,
    Missed,
    ModelsReady,
    Muted,
    Open,
    Pause,
    Resume,
    Revoked,
    RolledBack,
    SetAside,
    Skip,
    StateHeard,
    Stop,
    Stored,
    Tick,
    Unfusable,
    Withdraw,
)
from aggregator.rounds.state import SETTLE_S, Hold, Phase, RoundState, Rules, Verdict, eligible
from core.errors import RoundError
from wire.refusals import RefusalReason

pytestmark = pytest.mark.light
RULES = Rules(
    seed=0, prototypes=("cnn:fp32", "mlp:fp32"), rounds=3, fraction=1.0, min_devices=2, quorum=0.5, deadline_s=100.0
)


def waiting(devices: str = "abcd", **rules: object) -> RoundState:
    """Models are ready and these devices are online, all of cnn:fp32."""
    state = RoundState(rules=replace(RULES, **rules))
    state, _ = step(state, ModelsReady())
    for device in devices:
        state, _ = step(state, AboutHeard(device, "cnn:fp32"))
        state, _ = step(state, StateHeard(device, "online", 1))
    return state


def collecting(devices: str = "abcd", **rules: object) -> RoundState:
    state, (opened,) = step(waiting(devices, **rules), Tick(1000.0))
    assert isinstance(opened, Open)
    return state


def after(state: RoundState, *events: object) -> tuple[RoundState, list]:
    """The state after all events, and the actions of the last."""
    actions: list = []
    for event in events:
        state, actions = step(state, event)
    return state, actions


def test_nobody_is_online_without_a_broker() -> None:
    state, actions = after(waiting(), BrokerLost(), Tick(1e9))
    assert (eligible(state, 0.0), actions, state.phase) == ({}, [], Phase.WAITING)
    state, actions = after(state, BrokerConnected(1e9), Tick(1e9))
    assert (actions, state.unheard) == ([], frozenset("abcd"))


def test_a_device_whose_retained_state_says_lost_is_not_asked() -> None:
    state, actions = after(waiting(), BrokerLost(), BrokerConnected(50.0), StateHeard("a", "lost", 1), Tick(50.1))
    assert actions == []
    state, actions = after(state, *(StateHeard(device, "online", 1) for device in "bcd"), Tick(50.2))
    assert actions == [Open(1, dict.fromkeys("bcd", "cnn:fp32"), 150.2)]  # all that were there are heard: no wait


def test_a_device_that_died_with_the_broker_is_waited_for_once_and_not_asked() -> None:
    state, _ = after(waiting(), BrokerLost(), BrokerConnected(50.0))
    state, actions = after(state, *(StateHeard(device, "online", 1) for device in "abc"), Tick(49.9 + SETTLE_S))
    assert actions == []
    state, actions = step(state, Tick(50.0 + SETTLE_S))
    assert actions == [Missed(("d",)), Open(1, dict.fromkeys("abc", "cnn:fp32"), 150.0 + SETTLE_S)]
    assert state.devices["d"].status == "unknown"
    state, actions = after(state, StateHeard("d", "online", 2))
    assert "d" in eligible(state, 60.0)


def test_a_device_that_is_missed_in_the_middle_of_a_round_is_still_awaited() -> None:
    state, actions = after(collecting(), BrokerLost(), BrokerConnected(1001.0), Tick(1001.0 + SETTLE_S))
    assert actions == [Missed(("a", "b", "c", "d"))]
    assert (state.phase, state.awaited) == (Phase.COLLECTING, set("abcd"))
    state, actions = step(state, Stored("a", 1))
    assert state.answered == frozenset("a")


def test_an_older_will_is_no_news_but_a_sign_of_the_broker() -> None:
    state, _ = after(waiting(), StateHeard("a", "online", 7), BrokerConnected(50.0), StateHeard("a", "lost", 3))
    assert "a" not in state.unheard
    assert state.devices["a"].status == "unknown"


def test_revoked_devices_are_not_waited_for() -> None:
    state, _ = after(waiting(), Revoked("a"), BrokerConnected(50.0), Revoked("b"))
    assert state.unheard == frozenset("cd")


def test_no_round_is_opened_before_the_first_models_are_there() -> None:
    state = replace(waiting(), phase=Phase.STARTING)
    assert step(state, Tick(0.0)) == (state, [])


def test_a_round_opens_when_enough_devices_are_online() -> None:
    state, actions = step(waiting("a"), Tick(0.0))
    assert actions == []
    state, actions = after(state, AboutHeard("b", "mlp:fp32"), StateHeard("b", "online", 1), Tick(5.0))
    assert actions == [Open(1, {"a": "cnn:fp32", "b": "mlp:fp32"}, 105.0)]
    assert (state.phase, state.round, state.deadline) == (Phase.COLLECTING, 1, 105.0)


@pytest.mark.parametrize(
    "event", [StateHeard("b", "lost", 1), Revoked("b"), Muted("b", 1e9), AboutHeard("b", "vgg9:w1")]
)
def test_who_is_away_revoked_muted_or_of_another_prototype_is_not_asked(event: object) -> None:
    state, _ = step(waiting("abc"), event)
    assert eligible(state, 0.0).keys() == {"a", "c"}


def test_a_device_that_has_not_said_what_it_trains_is_not_asked() -> None:
    state, _ = step(waiting("a"), StateHeard("z", "online", 1))
    assert eligible(state, 0.0).keys() == {"a"}


def test_a_device_that_waits_for_samples_is_not_asked_until_it_has_some() -> None:
    state, _ = step(waiting("abc"), AboutHeard("b", "cnn:fp32", waiting=True))
    assert eligible(state, 0.0).keys() == {"a", "c"}
    state, _ = step(state, AboutHeard("b", "cnn:fp32"))
    assert eligible(state, 0.0).keys() == {"a", "b", "c"}


def test_a_mute_ends_and_a_revocation_can_be_taken_back() -> None:
    state, _ = after(waiting("a"), Muted("a", 50.0))
    assert (eligible(state, 49.0), list(eligible(state, 50.0))) == ({}, ["a"])
    state, _ = after(state, Revoked("a"), Allowed("a"))
    assert list(eligible(state, 50.0)) == ["a"]


def test_the_will_of_an_older_session_cannot_end_a_newer_one() -> None:
    state, _ = after(waiting("a"), StateHeard("a", "online", 7), StateHeard("a", "lost", 6))
    assert state.devices["a"].status == "online"
    state, _ = step(state, StateHeard("a", "lost", 7))
    assert state.devices["a"].status == "lost"


def test_a_reinstalled_device_that_counts_its_sessions_anew_is_back() -> None:
    state, _ = after(waiting("a"), StateHeard("a", "lost", 9), StateHeard("a", "online", 1))
    assert state.devices["a"].status == "online"


def test_a_round_is_fused_as_soon_as_all_have_answered() -> None:
    state, actions = after(collecting("ab"), Stored("a", 1))
    assert (state.phase, actions) == (Phase.COLLECTING, [])
    state, actions = step(state, Stored("b", 1))
    assert (state.phase, actions) == (Phase.FUSING, [Fuse(1)])


def test_all_answers_found_after_a_restart_are_fused_at_the_next_tick() -> None:
    state = replace(collecting("ab"), answered=frozenset("ab"))
    assert step(state, Tick(1001.0))[1] == [Fuse(1)]


def test_at_the_deadline_a_quorum_is_fused() -> None:
    state, actions = after(collecting("abcd"), Stored("a", 1), Stored("c", 1), Tick(1099.9))
    assert actions == []
    assert step(state, Tick(1100.0))[1] == [Fuse(1)]


def test_below_the_quorum_the_deadline_is_extended_once_and_then_the_round_abandoned() -> None:
    state, actions = after(collecting("abcd"), Stored("a", 1), Tick(1100.0))
    assert actions == [Extend(1, 1200.0)]
    state, actions = step(state, Tick(1200.0))
    assert actions == [Abandon(1, "1 of 4 answered, 2 are a quorum")]
    state, actions = step(state, Tick(1200.0))
    assert [type(a) for a in actions] == [Open]
    assert (state.round, state.answered, state.extended, state.completed) == (2, frozenset(), False, 0)


def test_an_answer_within_the_extension_makes_the_quorum() -> None:
    assert after(collecting("abcd"), Stored("a", 1), Tick(1100.0), Stored("b", 1), Tick(1200.0))[1] == [Fuse(1)]


def test_with_a_quorum_of_0_one_answer_is_still_needed() -> None:
    assert after(collecting("abcd", quorum=0.0), Tick(1100.0))[1] == [Extend(1, 1200.0)]


def test_a_fused_round_is_closed_and_the_next_one_opens() -> None:
    state, actions = after(collecting("ab"), Stored("a", 1), Stored("b", 1), Fused(1, {}))
    assert (actions, state.completed, state.phase) == ([Close(1)], 1, Phase.WAITING)
    assert step(state, Tick(2000.0))[1] == [Open(2, {"a": "cnn:fp32", "b": "cnn:fp32"}, 2100.0)]


def test_after_the_last_round_none_is_opened() -> None:
    state, actions = after(collecting("ab", rounds=1), Stored("a", 1), Stored("b", 1), Fused(1, {}))
    assert actions == [Close(1), Finish("all 1 rounds are done")]
    assert after(state, Tick(2000.0))[1] == []


@pytest.mark.parametrize(
    ("accuracies", "done"),
    [({"cnn:fp32": 0.9, "mlp:fp32": 0.95}, True), ({"cnn:fp32": 0.99, "mlp:fp32": 0.89}, False), ({}, False)],
)
def test_the_target_accuracy_is_reached_when_every_prototype_has_it(accuracies: dict, done: bool) -> None:
    state = collecting("ab", target_accuracy=0.9)
    state, actions = after(state, Stored("a", 1), Stored("b", 1), Fused(1, accuracies))
    assert actions == [Close(1), *([Finish("target accuracy 0.9 reached")] if done else [])]
    assert bool(after(state, Tick(2000.0))[1]) is not done


def test_an_update_is_judged_by_its_round_and_by_who_sends_it() -> None:
    state, _ = step(collecting("ab"), Stored("a", 1))
    assert judge(state, "b", 1) == Verdict()
    assert judge(state, "a", 1) == Verdict(RefusalReason.ALREADY_COUNTED)
    assert judge(state, "z", 1) == Verdict(RefusalReason.NOT_INVITED)
    assert judge(state, "b", 2) == Verdict(RefusalReason.NOT_OPENED)


def test_an_update_that_comes_late_is_refused_or_kept() -> None:
    fusing, _ = after(collecting("ab"), Stored("a", 1), Tick(1100.0))
    assert judge(fusing, "b", 1) == Verdict(RefusalReason.LATE, late=True)
    kept = replace(fusing, rules=replace(fusing.rules, keep_late=True))
    assert judge(kept, "b", 1) == Verdict(late=True)
    assert judge(replace(kept, round=2, phase=Phase.COLLECTING), "b", 1) == Verdict(late=True)
    assert judge(replace(kept, round=3, phase=Phase.COLLECTING), "b", 1).refused is RefusalReason.LATE


@pytest.mark.parametrize("event", [Stored("z", 1), Stored("a", 2), Fused(1, {})])
def test_what_cannot_be_is_an_error_of_ours(event: object) -> None:
    with pytest.raises(RoundError):
        step(collecting("ab"), event)


def test_a_paused_fleet_finishes_the_open_round_and_opens_no_other() -> None:
    state, actions = after(collecting("ab"), Pause(), Stored("a", 1), Stored("b", 1))
    assert actions == [Fuse(1)]
    state, actions = after(state, Fused(1, {}), Tick(2000.0))
    assert (actions, state.hold) == ([], Hold.PAUSED)
    assert [type(a) for a in after(state, Resume(), Tick(2000.0))[1]] == [Open]


def test_stop_closes_the_open_round_with_a_quorum_or_gives_it_up() -> None:
    assert after(collecting("ab"), Stored("a", 1), Stop())[1] == [Fuse(1)]
    state, actions = after(collecting("ab"), Stop())
    assert actions == [Abandon(1, "stopped")]
    assert after(state, Tick(2000.0))[1] == []


def test_a_revoked_device_leaves_the_open_round_with_its_update() -> None:
    state, actions = after(collecting("abc"), Stored("a", 1), Revoked("a"))
    assert actions == [Withdraw(1, "a", "revoked")]
    assert (state.invited.keys(), state.answered) == ({"b", "c"}, frozenset())


def test_if_all_others_have_answered_a_revocation_closes_the_round() -> None:
    assert after(collecting("ab"), Stored("a", 1), Revoked("b"))[1] == [Withdraw(1, "b", "revoked"), Fuse(1)]
    _, actions = after(collecting("ab"), Revoked("a"), Revoked("b"))
    assert actions == [Withdraw(1, "b", "revoked"), Abandon(1, "no device is left")]


def fusing(devices: str = "abc", **rules: object) -> RoundState:
    state, actions = after(collecting(devices, **rules), *(Stored(device, 1) for device in devices))
    assert actions == [Fuse(1)]
    return state


@pytest.mark.parametrize(
    ("event", "reason"), [(Revoked("a"), "revoked"), (SetAside("a", "cannot be fused"), "cannot be fused")]
)
def test_a_device_that_leaves_while_its_round_is_fused_has_the_others_fused_anew(event: object, reason: str) -> None:
    state, actions = step(fusing("abc"), event)
    assert actions == [Withdraw(1, "a", reason), Fuse(1)]
    assert (state.phase, state.answered) == (Phase.FUSING, {"b", "c"})


def test_without_the_last_update_a_round_is_given_up() -> None:
    state, actions = after(fusing("ab"), SetAside("a", "x"), SetAside("b", "y"))
    assert actions == [Withdraw(1, "b", "y"), Abandon(1, "no update is left")]
    assert (state.phase, state.deadline) == (Phase.WAITING, math.inf)


def test_a_revocation_of_a_device_that_has_no_part_in_fusing_changes_nothing_of_the_round() -> None:
    state, _ = after(collecting("abc"), Stored("a", 1), Stored("b", 1), Tick(1100.0))
    assert after(state, Revoked("c"))[1] == []
    late = replace(state, rules=replace(state.rules, keep_late=True))  # then an earlier update of it may teach
    assert after(late, Revoked("c"))[1] == [Withdraw(1, "c", "revoked"), Fuse(1)]


@pytest.mark.parametrize("event", [RolledBack(), Skip()])
@pytest.mark.parametrize("phase", [Phase.COLLECTING, Phase.FUSING])
@pytest.mark.parametrize("building", [False, True])
def test_a_rollback_and_a_skip_give_up_the_round_in_every_phase(event: object, phase: Phase, building: bool) -> None:
    state = collecting("ab") if phase is Phase.COLLECTING else fusing("ab")
    if building:
        state = replace(state, phase=Phase.STARTING, then=phase)
    state, actions = step(state, event)
    reason = "rolled back" if isinstance(event, RolledBack) else "skipped by the operator"
    assert actions == [Abandon(1, reason)]
    assert (state.phase, state.in_round, state.deadline) == (
        Phase.STARTING if building else Phase.WAITING,
        None,
        math.inf,
    )
    assert step(waiting(), event)[1] == []


def test_a_round_that_is_being_fused_is_finished_when_the_fleet_is_stopped_unless_it_cannot_be() -> None:
    state, actions = after(fusing("ab"), Stop())
    assert actions == []
    assert after(state, Fused(1, {}), Tick(2000.0))[1] == []
    assert after(state, Unfusable("no luck"))[1] == [Abandon(1, "no luck")]


def test_a_fleet_that_was_stopped_while_a_model_was_built_ends_its_round_afterwards() -> None:
    state = replace(collecting("ab"), phase=Phase.STARTING, then=Phase.COLLECTING)
    state, actions = after(state, Stop(), ModelsReady())
    assert actions == []
    assert step(state, Tick(1000.0))[1] == [Abandon(1, "stopped")]


def test_a_revocation_while_a_model_is_built_takes_the_device_out_of_the_waiting_round() -> None:
    state, _ = step(collecting("ab"), Stored("a", 1))
    state, actions = step(replace(state, phase=Phase.STARTING, then=Phase.COLLECTING), Revoked("b"))
    assert actions == [Withdraw(1, "b", "revoked"), Fuse(1)]
    assert (state.phase, state.then) == (Phase.STARTING, Phase.FUSING)


def test_after_starting_a_restored_round_goes_on() -> None:
    state = replace(collecting("ab"), phase=Phase.STARTING, then=Phase.COLLECTING)
    state, _ = step(state, ModelsReady())
    assert state.phase is Phase.COLLECTING


def test_an_event_leaves_the_state_before_it_untouched() -> None:
    before = collecting("ab")
    copy = replace(before, devices=dict(before.devices), invited=dict(before.invited))
    after(before, Stored("a", 1), Revoked("b"), StateHeard("c", "online", 1), Stop())
    assert before == copy


def test_who_gives_up_is_not_awaited() -> None:
    state, actions = after(collecting("abc"), GaveUp("b", 1), Stored("a", 1), Stored("c", 1))
    assert actions == [Fuse(1)]
    state, actions = after(collecting("abc"), Stored("a", 1), Stored("c", 1), GaveUp("b", 1))
    assert actions == [Fuse(1)]
    assert (state.answered, state.gave_up, len(state.invited)) == (frozenset("ac"), frozenset("b"), 3)


def test_one_that_answers_after_all_counts() -> None:
    state, actions = after(collecting("ab"), GaveUp("b", 1), Stored("b", 1))
    assert (state.gave_up, actions) == (frozenset(), [])
    assert step(state, Stored("a", 1))[1] == [Fuse(1)]


@pytest.mark.parametrize("event", [GaveUp("z", 1), GaveUp("b", 0), GaveUp("b", 2), GaveUp("a", 1)])
def test_giving_up_what_is_not_awaited_changes_nothing(event: GaveUp) -> None:
    state, _ = step(collecting("abc"), Stored("a", 1))
    assert step(state, event) == (state, [])
    fusing, _ = after(state, Stored("b", 1), Stored("c", 1))
    assert step(fusing, event) == (fusing, [])


def test_without_a_quorum_the_round_stays_open_until_its_deadline_and_no_longer() -> None:
    state, actions = after(collecting("abcd"), Stored("a", 1), GaveUp("b", 1), GaveUp("c", 1), GaveUp("d", 1))
    assert (state.phase, actions) == (Phase.COLLECTING, [])
    assert step(state, Tick(1050.0))[1] == []
    state, actions = step(state, Tick(1100.0))
    assert actions == [Abandon(1, "1 of 4 answered, 3 gave up, 2 are a quorum")]
    state, (opened,) = step(state, Tick(1101.0))
    assert isinstance(opened, Open)
    assert state.gave_up == frozenset()


def test_a_round_that_awaits_somebody_is_extended_whoever_gave_up() -> None:
    state, _ = after(collecting("abcd"), GaveUp("b", 1), GaveUp("c", 1))
    assert step(state, Tick(1100.0))[1] == [Extend(1, 1200.0)]


def test_when_the_last_one_awaited_is_revoked_the_others_are_fused() -> None:
    state, _ = after(collecting("abcd"), Stored("a", 1), Stored("b", 1), GaveUp("c", 1))
    state, actions = step(state, Revoked("d"))
    assert actions == [Withdraw(1, "d", "revoked"), Fuse(1)]
