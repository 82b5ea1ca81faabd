"""The round engine, without I/O: events in, a new state and actions out. No MQTT, no clock, no disk.

    STARTING ──ModelsReady──▶ WAITING ──Tick, enough devices──▶ COLLECTING ──all answered, or quorum at the deadline──▶
    FUSING ──Fused──▶ WAITING ──▶ …

The service writes the journal before it notifies the engine (`Stored`: the update is durable). It records the actions
of an event in one transaction, adopts the new state when that is durable, and then executes the actions. After a
restart, or a write that failed, the same state is built from the journal (`aggregator/rounds/restore.py`).

A device is online if it published `online` on the current connection to the broker, directly or as its retained state.
After a restart, and whenever the connection is lost, no device is. Before a round is opened, the engine waits up to
SETTLE_S seconds for devices that were online before.

With a buffer rounds are asynchronous, and `aggregator/rounds/buffered.py` has their table; what devices, broker and
operator say of presence and of holding is the same. The table of synchronous rounds:

    event        COLLECTING                  FUSING                                     STARTING, a round open
    GaveUp       fuse a quorum if it is the  -                                          -
                 last that was awaited
    Revoked      withdraw; fuse or abandon   withdraw; fuse the others, or abandon      as the round's own phase
    SetAside     -                           withdraw; fuse the others, or abandon      -
    Stop         fuse a quorum, or abandon   the round is fused and is the last         at the first tick after it
    Skip         abandon                     abandon                                    abandon
    RolledBack   abandon                     abandon                                    abandon
    Unfusable    -                           abandon                                    -
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from aggregator.rounds import buffered
from aggregator.rounds.events import (
    Abandon,
    AboutHeard,
    Action,
    Allowed,
    BrokerConnected,
    BrokerLost,
    Close,
    Event,
    Extend,
    Finish,
    Fuse,
    Fused,
    GaveUp,
    Later,
    Missed,
    ModelsReady,
    Muted,
    Open,
    Pause,
    Reloaded,
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
from aggregator.rounds.sampling import sample
from aggregator.rounds.state import (
    SETTLE_S,
    Hold,
    Phase,
    RoundState,
    Seen,
    Stepped,
    Verdict,
    eligible,
    enter,
    forget_presence,
    why_done,
)
from core.errors import RoundError
from wire.refusals import RefusalReason

__all__ = ["judge", "step"]


def step(state: RoundState, event: Event) -> Stepped:
    """The next state and the actions for `event`."""
    match event:
        case ModelsReady():
            return (replace(state, phase=state.then) if state.phase is Phase.STARTING else state), []
        case BrokerConnected(now):
            return forget_presence(state, now + SETTLE_S), []
        case BrokerLost():
            return forget_presence(state, math.inf), []
        case Tick(now) if state.unheard and now >= state.settled:
            missed = Missed(tuple(sorted(state.unheard)))
            state, actions = step(replace(state, unheard=frozenset()), event)
            return state, [missed, *actions]
        case StateHeard() | AboutHeard() | Muted() | Revoked() | Allowed() | Throttled():
            return _device(state, event)
        case Reloaded():
            return (state if state.in_round else _reloaded(state, event)), []
        case Pause():
            return replace(state, hold=Hold.PAUSED), []
        case Resume():
            return replace(state, hold=Hold.RUNNING), []
        case Stop():
            state = replace(state, hold=Hold.STOPPED)
    return buffered.step(state, event) if state.rules.buffer else _step(state, event)


def _step(state: RoundState, event: Event) -> Stepped:
    """The events of synchronous rounds."""
    match event:
        case Tick(now):
            return _tick(state, now)
        case Stored(device, round_number):
            return _stored(state, device, round_number)
        case GaveUp(device, round_number):
            return _gave_up(state, device, round_number)
        case Fused(round_number, accuracies):
            return _fused(state, round_number, accuracies)
        case SetAside(device, reason) if state.phase is Phase.FUSING:
            return _withdraw(state, device, reason)
        case Unfusable(reason) if state.phase is Phase.FUSING:
            return _abandon(state, reason)
        case RolledBack() | Skip() if state.in_round:
            return _abandon(state, "skipped by the operator" if isinstance(event, Skip) else "rolled back")
        case Stop():
            return _stop(state)
    return state, []


def judge(state: RoundState, device: str, round_number: int) -> Verdict:
    """The verdict on a valid update of `device` for round `round_number`."""
    if state.rules.buffer:
        return buffered.judge(state, device, round_number)
    if round_number > state.round:
        return Verdict(RefusalReason.NOT_OPENED)
    if round_number < state.round or state.phase is not Phase.COLLECTING:
        if state.rules.keep_late and round_number >= state.round - 1:
            return Verdict(late=True)
        return Verdict(RefusalReason.LATE, late=True)
    if device not in state.invited:
        return Verdict(RefusalReason.NOT_INVITED)
    if device in state.answered:
        return Verdict(RefusalReason.ALREADY_COUNTED)
    return Verdict()


def _reloaded(state: RoundState, event: Reloaded) -> RoundState:
    """Other rules, and without the devices that are no longer known."""
    devices = {device: seen for device, seen in state.devices.items() if device in event.known}
    return replace(
        state,
        rules=event.rules,
        devices=devices,
        unheard=state.unheard & devices.keys(),
        done=why_done(event.rules, state.completed, event.accuracies),
    )


def _tick(state: RoundState, now: float) -> Stepped:
    if state.phase is Phase.COLLECTING and not state.awaited and len(state.answered) >= state.needed:
        return _fuse(state)  # possible after a restart
    if state.phase is Phase.COLLECTING and state.hold is Hold.STOPPED:
        return _stop(state)  # it was stopped while a model was built
    if state.phase is Phase.COLLECTING and now >= state.ends:
        return _at_deadline(state, now)
    if state.phase is Phase.WAITING and state.hold is Hold.RUNNING and not state.done:
        return _try_open(state, now)
    return state, []


def _try_open(state: RoundState, now: float) -> Stepped:
    rules, there = state.rules, eligible(state, now)
    if len(there) < rules.min_devices or state.unheard:
        return state, []
    round_number, deadline = state.round + 1, now + rules.deadline_s
    invited = sample(there, rules.seed, round_number, fraction=rules.fraction, at_least=rules.min_devices)
    slow = frozenset(device for device in invited if state.devices[device].throttled and rules.throttled == "later")
    later = Later(slow, now + rules.deadline_s * rules.throttled_deadline) if slow else None
    state = replace(
        state,
        phase=Phase.COLLECTING,
        round=round_number,
        invited=invited,
        answered=frozenset(),
        gave_up=frozenset(),
        deadline=deadline,
        later=later,
        extended=False,
    )
    return state, [Open(round_number, invited, deadline, later)]


def _at_deadline(state: RoundState, now: float) -> Stepped:
    if len(state.answered) >= state.needed:
        return _fuse(state)
    if not state.extended and state.awaited:
        deadline = now + state.rules.deadline_s
        return replace(state, deadline=deadline, later=None, extended=True), [Extend(state.round, deadline)]
    failed = f", {len(state.gave_up)} gave up" if state.gave_up else ""
    text = f"{len(state.answered)} of {len(state.invited)} answered{failed}, {state.needed} are a quorum"
    return _abandon(state, text)


def _stored(state: RoundState, device: str, round_number: int) -> Stepped:
    if judge(state, device, round_number) != Verdict():
        raise RoundError(
            f"round {state.round}: an update of {device!r} for round {round_number} was stored out of turn"
        )
    return _settled(replace(state, answered=state.answered | {device}, gave_up=state.gave_up - {device}))


def _gave_up(state: RoundState, device: str, round_number: int) -> Stepped:
    """The device is no longer awaited. If too few are left for a quorum, the round stays open until its deadline.

    Abandoning it at once would start an endless loop of rounds that fail the same way.
    """
    if state.phase is not Phase.COLLECTING or round_number != state.round or device not in state.awaited:
        return state, []
    return _settled(replace(state, gave_up=state.gave_up | {device}))


def _settled(state: RoundState) -> Stepped:
    """Fuse, if no device is awaited any longer and there is a quorum."""
    return _fuse(state) if not state.awaited and len(state.answered) >= state.needed else (state, [])


def _fused(state: RoundState, round_number: int, accuracies: Mapping[str, float]) -> Stepped:
    if state.phase is not Phase.FUSING or round_number != state.round:
        raise RoundError(f"round {round_number} was fused while round {state.round} is {state.phase.value}")
    completed = state.completed + 1
    done = why_done(state.rules, completed, accuracies)
    state = replace(state, phase=Phase.WAITING, completed=completed, done=done, deadline=math.inf)
    return state, [Close(round_number), *([Finish(done)] if done else [])]


def _device(state: RoundState, event: StateHeard | AboutHeard | Muted | Revoked | Allowed | Throttled) -> Stepped:
    seen = state.devices.get(event.device, Seen())
    match event:
        case StateHeard(_, status, session):
            state = replace(state, unheard=state.unheard - {event.device})
            if status != "online" and session < seen.session:
                return state, []  # the will of an older session
            seen = replace(seen, status=status, session=session)
        case AboutHeard(_, prototype, waiting):
            seen = replace(seen, prototype=prototype, waiting=waiting)
        case Throttled(_, throttled):
            seen = replace(seen, throttled=throttled)
        case Muted(_, until):
            seen = replace(seen, muted_until=until)
        case Revoked() | Allowed():
            state = replace(state, unheard=state.unheard - {event.device})
            seen = replace(seen, revoked=isinstance(event, Revoked))
    state = replace(state, devices={**state.devices, event.device: seen})
    if not isinstance(event, Revoked):
        return state, []
    if state.rules.buffer:
        return buffered.withdraw(state, event.device, "revoked")
    return _revoked(state, event.device)


def _revoked(state: RoundState, device: str) -> Stepped:
    """Remove a revoked device and its update from the open round."""
    phase = state.in_round
    involved = phase is not None and device in state.invited
    if phase is Phase.FUSING:  # devices that have not answered are not part of it; a late update may teach
        involved = device in state.answered or state.rules.keep_late
    return _withdraw(state, device, "revoked") if involved else (state, [])


def _withdraw(state: RoundState, device: str, reason: str) -> Stepped:
    """Continue the round without this device, with the others' updates; without any it is abandoned."""
    invited = {name: prototype for name, prototype in state.invited.items() if name != device}
    state = replace(state, invited=invited, answered=state.answered - {device}, gave_up=state.gave_up - {device})
    actions: list[Action] = [Withdraw(state.round, device, reason)]
    more: list[Action] = []
    if state.in_round is Phase.FUSING:
        state, more = _fuse(state) if state.answered else _abandon(state, "no update is left")
    elif len(state.answered) == len(invited):
        state, more = _end(state, "no device is left")
    else:
        state, more = _settled(state)
    return state, actions + more


def _stop(state: RoundState) -> Stepped:
    return _end(state, "stopped") if state.phase is Phase.COLLECTING else (state, [])


def _end(state: RoundState, reason: str) -> Stepped:
    """Close the open round now: fuse the updates received so far if they are a quorum."""
    return _fuse(state) if len(state.answered) >= state.needed else _abandon(state, reason)


def _fuse(state: RoundState) -> Stepped:
    return enter(state, Phase.FUSING), [Fuse(state.round)]


def _abandon(state: RoundState, reason: str) -> Stepped:
    return replace(enter(state, Phase.WAITING), deadline=math.inf), [Abandon(state.round, reason)]
