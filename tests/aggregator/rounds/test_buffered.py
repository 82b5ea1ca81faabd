"""Every rule of asynchronous rounds, event by event."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from aggregator.rounds.engine import judge, step
from aggregator.rounds.events import (
    Abandon,
    AboutHeard,
    Action,
    AskAgain,
    BrokerConnected,
    BrokerLost,
    Close,
    DropBuffer,
    EndJobs,
    Event,
    Finish,
    Fuse,
    Fused,
    GaveUp,
    Give,
    Lapse,
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
    Throttled,
    Tick,
    Unfusable,
    Withdraw,
)
from aggregator.rounds.state import Phase, RoundState, Rules, Verdict
from core.errors import RoundError
from wire.refusals import RefusalReason

pytestmark = pytest.mark.light
RULES = Rules(
    seed=0,
    prototypes=("cnn:fp32",),
    rounds=3,
    fraction=1.0,
    min_devices=2,
    quorum=0.5,
    deadline_s=100.0,
    buffer=2,
)


def after(state: RoundState, *events: Event) -> tuple[RoundState, list[Action]]:
    """The state after all events, and the actions of the last."""
    actions: list[Action] = []
    for event in events:
        state, actions = step(state, event)
    return state, actions


def online(*devices: str) -> list[Event]:
    return [event for name in devices for event in (AboutHeard(name, "cnn:fp32"), StateHeard(name, "online", 1))]


def waiting(devices: str = "abc", **rules: object) -> RoundState:
    state = RoundState(rules=replace(RULES, **rules))  # type: ignore[arg-type]
    return after(state, ModelsReady(), *online(*devices))[0]


def collecting(devices: str = "abc", now: float = 1000.0, **rules: object) -> RoundState:
    """Round 1 is open, and every place is taken."""
    return after(waiting(devices, **rules), Tick(now))[0]


def stored(state: RoundState, device: str) -> Stored:
    job = state.working.get(device) or state.lapsed[device]
    return Stored(device, job.round, job.number)


def answered(state: RoundState, *devices: str, now: float = 1001.0) -> RoundState:
    """These devices answer, one after the other, with a tick and, if need be, a fusion in between."""
    for device in devices:
        state, _ = after(state, stored(state, device))
        if state.phase is Phase.FUSING:
            state, _ = after(state, Fused(state.round, {}))
        state, _ = after(state, Tick(now))
    return state


def given(actions: list[Action]) -> dict[str, int]:
    """Device and number of every job in `actions`."""
    return {action.device: action.job.number for action in actions if isinstance(action, Give)}


def test_a_round_opens_and_every_device_gets_a_job_against_the_newest_model() -> None:
    state, actions = after(waiting(), Tick(1000.0))
    assert actions[0] == Open(1, {}, 1100.0)
    assert given(actions) == {"a": 1, "b": 2, "c": 3}
    assert {(job.round, job.version, job.deadline) for job in state.working.values()} == {(1, 0, 1100.0)}
    assert (state.given, state.awaited) == (3, {"a", "b", "c"})


def test_it_waits_for_enough_devices_and_for_those_that_were_there_before() -> None:
    assert after(waiting("a"), Tick(1000.0))[1] == []
    state, actions = after(waiting(), BrokerLost(), BrokerConnected(1000.0), *online("a", "b"), Tick(1001.0))
    assert actions == []
    state, actions = after(state, Tick(1005.0))
    assert (actions[0], set(given(actions))) == (Missed(("c",)), {"a", "b"})


def test_no_more_devices_train_than_there_are_places() -> None:
    assert len(collecting("abcd", concurrency=2).working) == 2
    assert len(collecting("abcd", fraction=0.25, min_devices=1).working) == 1


def test_the_devices_are_drawn_by_seed_and_number_of_the_job() -> None:
    drawn = [[*collecting("abcdefgh", concurrency=3, seed=seed).working] for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_an_accepted_update_frees_a_place_that_is_taken_at_the_next_tick() -> None:
    state = collecting()
    assert judge(state, "a", 1) == Verdict(job=1)
    state, actions = after(state, stored(state, "a"))
    assert (actions, state.buffer, set(state.working)) == ([], ("a",), {"b", "c"})
    assert judge(state, "a", 1) == Verdict(RefusalReason.NOT_INVITED)
    state, actions = after(state, Tick(1050.0))
    assert given(actions) == {"a": 4}
    job = state.working["a"]
    assert (job.version, job.round, job.deadline) == (0, 1, 1150.0)
    assert judge(state, "a", 1) == Verdict(job=4)


def test_a_full_buffer_is_fused_and_the_next_jobs_start_from_its_version() -> None:
    state, actions = after(state := collecting(), stored(state, "b"), stored(state, "a"))
    assert (actions, state.phase, state.answered, state.buffer) == ([Fuse(1, 2)], Phase.FUSING, {"a", "b"}, ())
    state, actions = after(state, Tick(1002.0))
    assert actions == []  # no job against a model that is about to be replaced
    state, actions = after(state, Fused(1, {}))
    assert (actions, state.completed, state.phase) == ([Close(1)], 1, Phase.WAITING)
    state, actions = after(state, Tick(1003.0))
    assert (actions[0], given(actions)) == (Open(2, {}, 1103.0), {"a": 4, "b": 5})
    assert {device: job.version for device, job in state.working.items()} == {"a": 1, "b": 1, "c": 0}


def test_updates_that_arrive_while_fusing_are_in_the_next_buffer() -> None:
    """The oldest are fused together, however many have arrived."""
    state = collecting("abcde")
    state, _ = after(state, *(stored(state, device) for device in "ab"))
    state, actions = after(state, *(stored(state, device) for device in "ecd"))
    assert (actions, state.buffer) == ([], ("e", "c", "d"))
    state, _ = after(state, Fused(1, {}))
    state, actions = after(state, Tick(1002.0))
    assert (actions, state.answered, state.buffer) == ([Open(2, {}, 1102.0), Fuse(2, 2)], {"e", "c"}, ("d",))


def test_a_device_may_be_in_the_buffer_twice() -> None:
    state = answered(collecting(), "a")
    state, actions = after(state, stored(state, "a"))
    assert (actions, state.answered) == ([Fuse(1, 2)], {"a"})


def test_an_update_that_nobody_was_given_is_an_error_of_ours() -> None:
    with pytest.raises(RoundError, match="job 9 of 'a', round 1: an update was stored out of turn"):
        step(collecting(), Stored("a", 1, 9))


def test_updates_without_a_job_are_refused() -> None:
    state = answered(collecting(), "a", "b")
    assert judge(state, "a", 3) == Verdict(RefusalReason.NOT_OPENED)
    assert judge(state, "b", 1) == Verdict(RefusalReason.LATE, late=True)
    assert judge(state, "z", 2) == Verdict(RefusalReason.NOT_INVITED)
    assert judge(state, "c", 1) == Verdict(job=3)  # the round is closed, its job is open


def test_a_late_job_keeps_its_place_until_another_device_needs_it() -> None:
    state = collecting("ab", concurrency=1, min_devices=1)
    (slow,) = state.working
    state, _ = after(state, StateHeard("b" if slow == "a" else "a", "lost", 2))
    state, actions = after(state, Tick(1100.0))
    assert (actions, set(state.working)) == ([], {slow})
    other = "b" if slow == "a" else "a"
    state, actions = after(state, StateHeard(other, "online", 3), Tick(1101.0))
    assert actions[0] == Lapse((1,))
    assert (given(actions), set(state.lapsed)) == ({other: 2}, {slow})


def test_the_update_of_a_lapsed_job_still_counts() -> None:
    state = collecting("ab", concurrency=1, min_devices=1)
    (slow,) = state.working
    state, _ = after(state, Tick(1100.0))
    (fast,) = state.working
    assert (fast != slow, judge(state, slow, 1)) == (True, Verdict(job=1))
    state, actions = after(state, stored(state, slow))
    assert (actions, state.buffer, state.lapsed) == ([], (slow,), {})


def test_a_device_that_owes_an_update_is_asked_last_and_only_with_a_newer_model() -> None:
    state = collecting("ab", concurrency=1, min_devices=1, rounds=9)
    (slow,) = state.working
    state, _ = after(state, Tick(1100.0))
    (fast,) = state.working
    state, actions = after(answered(state, fast, now=1101.0), Tick(1102.0))
    assert set(state.working) == {fast}
    state, actions = after(replace(state, deadline=1150.0), GaveUp(fast, 1), Tick(1103.0))
    assert (actions, state.working) == ([], {})  # it trains from the newest model
    state, _ = after(state, stored(state, slow), Fused(1, {}), Tick(1104.0))
    assert set(state.working) <= {fast, slow} != set()


def test_a_lapsed_job_ends_after_another_deadline() -> None:
    state = collecting("ab", concurrency=1, min_devices=1)
    (slow,) = state.working
    state, _ = after(state, Tick(1100.0), StateHeard(slow, "lost", 2))
    state, actions = after(state, Tick(1199.9))
    assert actions == []
    state, actions = after(state, Tick(1200.0))
    assert EndJobs((1,)) in actions
    assert judge(state, slow, 1).refused is RefusalReason.NOT_INVITED


def test_a_device_that_is_slowed_down_has_a_later_deadline() -> None:
    state, _ = after(waiting(throttled="later", throttled_deadline=3.0), Throttled("b", True), Tick(1000.0))
    assert {device: job.deadline for device, job in state.working.items()} == {"a": 1100.0, "b": 1300.0, "c": 1100.0}
    state, actions = after(waiting(throttled="leave-out"), Throttled("b", True), Tick(1000.0))
    assert set(given(actions)) == {"a", "c"}


def test_updates_beyond_max_staleness_are_late_and_their_devices_begin_anew() -> None:
    state = collecting(max_staleness=0, rounds=9)
    assert judge(state, "c", 1) == Verdict(job=3)
    state, _ = after(state, stored(state, "a"), stored(state, "b"))
    assert judge(state, "c", 1) == Verdict(RefusalReason.LATE, late=True)  # it would be fused into the next version
    state, actions = after(state, Fused(1, {}), Tick(1005.0))
    assert EndJobs((3,)) in actions
    assert set(given(actions)) == {"a", "b", "c"}
    assert {job.version for job in state.working.values()} == {1}


def test_a_device_that_gave_up_is_asked_again_after_the_deadline_or_in_the_next_round() -> None:
    state, actions = after(collecting(), GaveUp("a", 1))
    assert (actions, set(state.working)) == ([EndJobs((1,))], {"b", "c"})
    state, actions = after(state, GaveUp("a", 1), Tick(1099.0))
    assert actions == []
    _, actions = after(state, Tick(1100.0))
    assert (actions[0], given(actions)) == (AskAgain(1, 1200.0), {"a": 4})
    state = answered(state, "b", "c", now=1050.0)
    assert "a" in state.working


def test_a_muted_device_gets_no_job() -> None:
    _, actions = after(waiting(), Muted("a", 2000.0), Tick(1000.0))
    assert set(given(actions)) == {"b", "c"}


def test_after_the_last_round_all_jobs_end() -> None:
    state, _ = after(state := collecting(rounds=1), stored(state, "a"), stored(state, "b"))
    state, actions = after(state, Fused(1, {}))
    assert actions == [Close(1), EndJobs((3,)), Finish("all 1 rounds are done")]
    assert after(state, Tick(2000.0))[1] == []
    assert judge(state, "c", 1).refused is RefusalReason.NOT_INVITED


def test_a_revoked_device_is_taken_out_everywhere() -> None:
    state = answered(collecting("abcd", buffer=3), "a", "b")
    state, actions = after(state, Revoked("a"))
    assert (actions, state.buffer, "a" in state.working) == ([Withdraw(1, "a", "revoked")], ("b",), False)
    state, _ = after(state, stored(state, "c"), stored(state, "d"))
    assert state.phase is Phase.FUSING
    state, actions = after(state, Revoked("c"))
    assert actions == [Withdraw(1, "c", "revoked"), Fuse(1)]
    assert after(state, Revoked("z"))[1] == []


def test_a_fusion_goes_on_without_what_cannot_be_fused_or_is_abandoned() -> None:
    state, _ = after(state := collecting(), stored(state, "a"), stored(state, "b"))
    state, actions = after(state, SetAside("a", "it crashes"))
    assert actions == [Withdraw(1, "a", "it crashes"), Fuse(1)]
    left, actions = after(state, SetAside("b", "it crashes"))
    assert actions == [Withdraw(1, "b", "it crashes"), Abandon(1, "no update is left")]
    assert left.phase is Phase.WAITING
    state, actions = after(state, Unfusable("no"))
    assert (actions, set(state.working)) == ([Abandon(1, "no")], {"c"})


def test_paused_it_finishes_the_open_round_and_gives_no_job_after_it() -> None:
    state, actions = after(answered(collecting(), "a"), Pause(), Tick(1005.0))
    assert state.phase is Phase.COLLECTING
    state = answered(state, "b")
    assert (state.phase, state.completed) == (Phase.WAITING, 1)
    state, actions = after(state, stored(state, "c"), Tick(1006.0))
    assert (actions, state.buffer) == ([], ("c",))
    state, actions = after(state, Resume(), Tick(1007.0))
    assert actions[0] == Open(2, {}, 1107.0)


def test_stopped_it_fuses_a_quorum_of_the_buffer_or_nothing() -> None:
    state, actions = after(answered(collecting(), "a"), Stop())
    assert actions == [EndJobs((2, 3, 4)), Fuse(1, 1)]
    state, actions = after(state, Fused(1, {}), Tick(2000.0))
    assert (actions, state.phase) == ([], Phase.WAITING)
    state, actions = after(answered(collecting(buffer=5), "a"), Stop())
    assert actions == [EndJobs((2, 3, 4)), DropBuffer("stopped"), Abandon(1, "stopped")]
    state, _ = after(state := collecting(), stored(state, "a"), stored(state, "b"))
    assert after(state, Stop())[1] == [EndJobs((3,))]


def test_stopped_while_a_model_is_made_it_stops_at_the_first_tick_after_it() -> None:
    state = replace(answered(collecting(), "a"), phase=Phase.STARTING, then=Phase.COLLECTING)
    state, actions = after(state, Stop())
    assert actions == []
    state, actions = after(state, ModelsReady(), Tick(1010.0))
    assert actions == [EndJobs((2, 3, 4)), Fuse(1, 1)]


def test_skip_gives_up_what_the_round_has_and_leaves_the_jobs() -> None:
    state, actions = after(answered(collecting(), "a"), Skip())
    drop, abandon = DropBuffer("skipped by the operator"), Abandon(1, "skipped by the operator")
    assert (actions, state.buffer, set(state.working)) == ([drop, abandon], (), {"a", "b", "c"})
    state, actions = after(state, Tick(1010.0))
    assert actions == [Open(2, {}, 1110.0)]
    assert judge(state, "b", 1) == Verdict(job=2)
    assert after(waiting(), Skip())[1] == []


def test_a_rollback_uses_nothing_that_was_trained_before_it() -> None:
    state, actions = after(answered(collecting(), "a"), RolledBack())
    assert actions == [EndJobs((2, 3, 4)), DropBuffer("rolled back"), Abandon(1, "rolled back")]
    state, actions = after(state, Tick(1010.0))
    assert given(actions) == {"a": 5, "b": 6, "c": 7}


def test_a_smaller_buffer_after_a_restart_is_fused_at_once() -> None:
    state = answered(collecting(buffer=5), "a", "b")
    state, actions = after(replace(state, rules=replace(state.rules, buffer=2)), Tick(1010.0))
    assert actions == [Fuse(1, 2)]


def test_a_result_of_another_round_is_an_error_of_ours() -> None:
    with pytest.raises(RoundError, match="round 7 was fused while round 1 is collecting"):
        step(collecting(), Fused(7, {}))


@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_updates_are_fused_once_and_in_their_order(seed: int) -> None:
    """A random fleet: devices answer, are late, lost or back, while rounds are fused and paused."""
    rng = random.Random(seed)
    state = waiting("abcdefg", buffer=3, rounds=10**6, concurrency=4, max_staleness=rng.choice([None, 2]))
    now, accepted, fused, numbers = 1000.0, [], [], []
    for _ in range(400):
        now += rng.choice([0.0, 1.0, 60.0])
        device = rng.choice("abcdefg")
        owed = [job for jobs in (state.working, state.lapsed) if (job := jobs.get(device)) is not None]
        events: list[Event] = [
            StateHeard(device, rng.choice(["online", "online", "lost"]), 1),
            GaveUp(device, rng.randint(1, state.round + 1)),
            rng.choice([Pause(), Resume(), Resume()]),
        ]
        if owed and judge(state, device, owed[0].round).refused is None:
            job = judge(state, device, owed[0].round).job
            events += [Stored(device, owed[0].round, job)] * 6
        if state.phase is Phase.FUSING:
            events += [Fused(state.round, {})] * 3
        event = rng.choice(events)
        if isinstance(event, Stored):
            accepted.append(event.job)
        for each in (event, Tick(now)):
            state, actions = step(state, each)
            numbers += [action.job.number for action in actions if isinstance(action, Give)]
            for action in actions:
                if isinstance(action, Fuse):
                    assert action.take == 3
                    fused.append(action.round)
        assert len(state.working) <= 4
        assert len(accepted) == 3 * len(fused) + len(state.buffer)
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(accepted) == len(set(accepted)) > 30
    assert fused == list(range(1, len(fused) + 1))
