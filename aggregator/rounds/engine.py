"""The round engine, without I/O: events in, a new state and actions out. No MQTT, no clock, no disk.

    STARTING ──ModelsReady──▶ WAITING ──Tick, enough devices──▶ COLLECTING ──all answered, or quorum at the deadline──▶
    FUSING ──Fused──▶ WAITING ──▶ …

The service writes the journal before it notifies the engine (`Stored`: the update is durable). It records the actions
of an event in one transaction, adopts the new state when that is durable, and then executes the actions. After a
restart, or a write that failed, the same state is built from the journal (`aggregator/rounds/restore.py`).

A device is online if it published `online` on the current connection to the broker, directly or as its retained state.
After a restart, and whenever the connection is lost, no device is. Before a round is opened, the engine waits up to
SETTLE_S seconds for devices that were online before.

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
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeAlias

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
from core.errors import RoundError
from wire.refusals import RefusalReason

__all__ = [
    "SETTLE_S",
    "Hold",
    "Phase",
    "RoundState",
    "Rules",
    "Seen",
    "Verdict",
    "eligible",
    "forget_presence",
    "judge",
    "step",
    "why_done",
]


#: Seconds for the broker to send its retained states: a device that has none by then may be anywhere.
SETTLE_S = 5.0


class Phase(Enum):
    """The phase of a round."""

    STARTING = "starting"  # the first models are being built
    WAITING = "waiting"  # for enough devices, or for a resume
    COLLECTING = "collecting"
    FUSING = "fusing"


class Hold(Enum):
    """Whether new rounds are opened."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The operator's settings; see RoundConfig."""

    seed: int
    prototypes: tuple[str, ...]
    rounds: int
    fraction: float
    min_devices: int
    quorum: float
    deadline_s: float
    target_accuracy: float | None = None
    keep_late: bool = False
    throttled: str = "as-others"  # later: another deadline; leave-out: not invited
    throttled_deadline: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The last known state of a device."""

    status: str = "unknown"
    session: int = 0
    prototype: str | None = None
    waiting: bool = False  # for samples: it takes models, and is not invited
    throttled: bool = False
    muted_until: float = 0.0
    revoked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundState:
    """The complete state of the engine."""

    rules: Rules
    phase: Phase = Phase.STARTING
    then: Phase = Phase.WAITING  # the phase after STARTING: a round may already be open
    hold: Hold = Hold.RUNNING
    round: int = 0  # the open one, or the last one
    completed: int = 0  # rounds that were fused
    devices: Mapping[str, Seen] = field(default_factory=dict)
    unheard: frozenset[str] = frozenset()  # online before the last connection, without a message since
    settled: float = math.inf  # when they are no longer waited for
    invited: Mapping[str, str] = field(default_factory=dict)  # device: prototype
    answered: frozenset[str] = frozenset()
    gave_up: frozenset[str] = frozenset()  # of those invited; if their updates arrive anyway, they count
    deadline: float = math.inf
    later: Later | None = None  # until the round is extended
    extended: bool = False
    done: str = ""  # why no round will follow

    @property
    def in_round(self) -> Phase | None:
        """COLLECTING or FUSING if a round is open, even while the model of a new prototype is built."""
        phase = self.then if self.phase is Phase.STARTING else self.phase
        return phase if phase in (Phase.COLLECTING, Phase.FUSING) else None

    @property
    def awaited(self) -> set[str]:
        """Invited devices that may still answer."""
        return self.invited.keys() - self.answered - self.gave_up

    def deadline_of(self, device: str) -> float:
        """The deadline of one device."""
        return self.later.deadline if self.later is not None and device in self.later.devices else self.deadline

    @property
    def ends(self) -> float:
        """When those who may still answer are no longer waited for: by the later deadline, if one of these has it."""
        return max([self.deadline, *map(self.deadline_of, self.awaited)]) if self.later is not None else self.deadline

    @property
    def needed(self) -> int:
        """Number of answers that form a quorum."""
        return max(1, math.ceil(self.rules.quorum * len(self.invited)))


Stepped: TypeAlias = tuple[RoundState, list[Action]]


def step(state: RoundState, event: Event) -> Stepped:
    """The next state and the actions for `event`."""
    match event:
        case Tick(now):
            return _tick(state, now)
        case Stored(device, round_number):
            return _stored(state, device, round_number)
        case GaveUp(device, round_number):
            return _gave_up(state, device, round_number)
        case Fused(round_number, accuracies):
            return _fused(state, round_number, accuracies)
        case ModelsReady():
            return (replace(state, phase=state.then) if state.phase is Phase.STARTING else state), []
        case BrokerConnected(now):
            return forget_presence(state, now + SETTLE_S), []
        case BrokerLost():
            return forget_presence(state, math.inf), []
        case StateHeard() | AboutHeard() | Muted() | Revoked() | Allowed() | Throttled():
            return _device(state, event)
        case SetAside(device, reason):
            return _withdraw(state, device, reason) if state.phase is Phase.FUSING else (state, [])
        case Unfusable(reason):
            return _abandon(state, reason) if state.phase is Phase.FUSING else (state, [])
        case RolledBack() | Skip():
            reason = "skipped by the operator" if isinstance(event, Skip) else "rolled back"
            return _abandon(state, reason) if state.in_round else (state, [])
        case Reloaded():
            return (state if state.in_round else _reloaded(state, event)), []
        case Pause():
            return replace(state, hold=Hold.PAUSED), []
        case Resume():
            return replace(state, hold=Hold.RUNNING), []
        case Stop():
            return _stop(replace(state, hold=Hold.STOPPED))


def forget_presence(state: RoundState, settled: float) -> RoundState:
    """Nobody is online any more; devices that were are waited for until `settled`."""
    online = {device: seen for device, seen in state.devices.items() if seen.status == "online"}
    gone = {device: replace(seen, status="unknown") for device, seen in online.items()}
    waited = frozenset(device for device, seen in gone.items() if not seen.revoked)
    return replace(state, devices={**state.devices, **gone}, unheard=state.unheard | waited, settled=settled)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an update can be accepted: it counts, it is kept although late, or the reason against it."""

    refused: RefusalReason | None = None
    late: bool = False


def judge(state: RoundState, device: str, round_number: int) -> Verdict:
    """The verdict on a valid update of `device` for round `round_number`."""
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


def eligible(state: RoundState, now: float) -> dict[str, str]:
    """The devices that a round may invite, and their prototypes."""
    known = state.rules.prototypes
    return {
        device: seen.prototype
        for device, seen in sorted(state.devices.items())
        if seen.status == "online"
        and not (seen.revoked or seen.waiting)
        and not (seen.throttled and state.rules.throttled == "leave-out")
        and seen.muted_until <= now
        and seen.prototype in known
    }  # fmt: skip


def why_done(rules: Rules, completed: int, accuracies: Mapping[str, float]) -> str:
    """Why no further round is opened, or an empty string."""
    if completed >= rules.rounds:
        return f"all {rules.rounds} rounds are done"
    target = rules.target_accuracy
    if completed and target is not None and all(accuracies.get(name, -1.0) >= target for name in rules.prototypes):
        return f"target accuracy {target:g} reached"
    return ""


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
    if state.unheard and now >= state.settled:
        missed = Missed(tuple(sorted(state.unheard)))
        state, actions = _tick(replace(state, unheard=frozenset()), now)
        return state, [missed, *actions]
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
    return _revoked(state, event.device) if isinstance(event, Revoked) else (state, [])


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
    return _enter(state, Phase.FUSING), [Fuse(state.round)]


def _abandon(state: RoundState, reason: str) -> Stepped:
    return replace(_enter(state, Phase.WAITING), deadline=math.inf), [Abandon(state.round, reason)]


def _enter(state: RoundState, phase: Phase) -> RoundState:
    """Set the next phase of the round; while a model is built, the phase after that."""
    return replace(state, then=phase) if state.phase is Phase.STARTING else replace(state, phase=phase)
