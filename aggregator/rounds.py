"""The round engine, without I/O: events in, a new state and actions out. No MQTT, no clock, no disk.

    STARTING ──ModelsReady──▶ WAITING ──Tick, enough devices──▶ COLLECTING ──all answered, or quorum at the deadline──▶
    FUSING ──Fused──▶ WAITING ──▶ …

The service writes the journal before it tells the engine (`Stored`: the update is durable) and carries out the
actions in their order. After a restart the same state is built from the journal (`aggregator/restore.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeAlias

from aggregator.events import (
    Abandon,
    AboutHeard,
    Action,
    Allowed,
    Close,
    Event,
    Extend,
    Finish,
    Fuse,
    Fused,
    ModelsReady,
    Muted,
    Open,
    Pause,
    Resume,
    Revoked,
    RolledBack,
    StateHeard,
    Stop,
    Stored,
    Tick,
    Withdraw,
)
from aggregator.sampling import sample
from wire.errors import RoundError

__all__ = ["Hold", "Phase", "RoundState", "Rules", "Seen", "Verdict", "eligible", "judge", "step", "why_done"]


class Phase(Enum):
    """Where a round stands."""

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
    """What the operator has asked for; see RoundConfig."""

    seed: int
    prototypes: tuple[str, ...]
    rounds: int
    fraction: float
    min_devices: int
    quorum: float
    deadline_s: float
    target_accuracy: float | None = None
    keep_late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A device as last heard of."""

    status: str = "unknown"
    session: int = 0
    prototype: str | None = None
    muted_until: float = 0.0
    revoked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundState:
    """All that the engine knows."""

    rules: Rules
    phase: Phase = Phase.STARTING
    then: Phase = Phase.WAITING  # what follows STARTING: a round may be open already
    hold: Hold = Hold.RUNNING
    round: int = 0  # the open one, or the last one
    completed: int = 0  # rounds that were fused
    devices: Mapping[str, Seen] = field(default_factory=dict)
    invited: Mapping[str, str] = field(default_factory=dict)  # device: prototype
    answered: frozenset[str] = frozenset()
    deadline: float = math.inf
    extended: bool = False
    done: str = ""  # why no round will follow

    @property
    def needed(self) -> int:
        """How many answers make a quorum."""
        return max(1, math.ceil(self.rules.quorum * len(self.invited)))


Stepped: TypeAlias = tuple[RoundState, list[Action]]


def step(state: RoundState, event: Event) -> Stepped:
    """What follows from `event`."""
    match event:
        case Tick(now):
            return _tick(state, now)
        case Stored(device, number):
            return _stored(state, device, number)
        case Fused(number, accuracies):
            return _fused(state, number, accuracies)
        case ModelsReady():
            return (replace(state, phase=state.then) if state.phase is Phase.STARTING else state), []
        case StateHeard() | AboutHeard() | Muted() | Revoked() | Allowed():
            return _device(state, event)
        case RolledBack():
            return _abandon(state, "rolled back") if state.phase is Phase.COLLECTING else (state, [])
        case Pause():
            return replace(state, hold=Hold.PAUSED), []
        case Resume():
            return replace(state, hold=Hold.RUNNING), []
        case Stop():
            state = replace(state, hold=Hold.STOPPED)
            return _end(state, "stopped") if state.phase is Phase.COLLECTING else (state, [])


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an update of a round can be taken: it counts, it is kept though late, or why not."""

    reason: str = ""
    late: bool = False


def judge(state: RoundState, device: str, number: int) -> Verdict:
    """What would become of an update of `device` for round `number`, if it is sound."""
    if number > state.round:
        return Verdict(f"round {number} was not opened")
    if number < state.round or state.phase is not Phase.COLLECTING:
        if state.rules.keep_late and number >= state.round - 1:
            return Verdict(late=True)
        return Verdict(f"late: round {number} is closed", late=True)
    if device not in state.invited:
        return Verdict(f"not invited to round {number}")
    if device in state.answered:
        return Verdict(f"already counted in round {number}")
    return Verdict()


def eligible(state: RoundState, now: float) -> dict[str, str]:
    """The devices that a round may ask, and their prototypes."""
    known = state.rules.prototypes
    return {
        device: seen.prototype
        for device, seen in sorted(state.devices.items())
        if seen.status == "online" and not seen.revoked and seen.muted_until <= now and seen.prototype in known
    }  # fmt: skip


def why_done(rules: Rules, completed: int, accuracies: Mapping[str, float]) -> str:
    """The reason to open no further round, or nothing."""
    if completed >= rules.rounds:
        return f"all {rules.rounds} rounds are done"
    target = rules.target_accuracy
    if completed and target is not None and all(accuracies.get(name, -1.0) >= target for name in rules.prototypes):
        return f"target accuracy {target:g} reached"
    return ""


def _tick(state: RoundState, now: float) -> Stepped:
    if state.phase is Phase.COLLECTING and len(state.answered) == len(state.invited):
        return _fuse(state)  # a restart may find it so
    if state.phase is Phase.COLLECTING and now >= state.deadline:
        return _at_deadline(state, now)
    if state.phase is Phase.WAITING and state.hold is Hold.RUNNING and not state.done:
        return _try_open(state, now)
    return state, []


def _try_open(state: RoundState, now: float) -> Stepped:
    rules, there = state.rules, eligible(state, now)
    if len(there) < rules.min_devices:
        return state, []
    number, deadline = state.round + 1, now + rules.deadline_s
    invited = sample(there, rules.seed, number, fraction=rules.fraction, at_least=rules.min_devices)
    state = replace(
        state,
        phase=Phase.COLLECTING,
        round=number,
        invited=invited,
        answered=frozenset(),
        deadline=deadline,
        extended=False,
    )
    return state, [Open(number, invited, deadline)]


def _at_deadline(state: RoundState, now: float) -> Stepped:
    if len(state.answered) >= state.needed:
        return _fuse(state)
    if not state.extended:
        deadline = now + state.rules.deadline_s
        return replace(state, deadline=deadline, extended=True), [Extend(state.round, deadline)]
    return _abandon(state, f"{len(state.answered)} of {len(state.invited)} answered, {state.needed} are a quorum")


def _stored(state: RoundState, device: str, number: int) -> Stepped:
    if judge(state, device, number) != Verdict():
        raise RoundError(f"round {state.round}: an update of {device!r} for round {number} was stored out of turn")
    state = replace(state, answered=state.answered | {device})
    return _fuse(state) if len(state.answered) == len(state.invited) else (state, [])


def _fused(state: RoundState, number: int, accuracies: Mapping[str, float]) -> Stepped:
    if state.phase is not Phase.FUSING or number != state.round:
        raise RoundError(f"round {number} was fused while round {state.round} is {state.phase.value}")
    completed = state.completed + 1
    done = why_done(state.rules, completed, accuracies)
    state = replace(state, phase=Phase.WAITING, completed=completed, done=done, deadline=math.inf)
    return state, [Close(number), *([Finish(done)] if done else [])]


def _device(state: RoundState, event: StateHeard | AboutHeard | Muted | Revoked | Allowed) -> Stepped:
    seen = state.devices.get(event.device, Seen())
    match event:
        case StateHeard(_, status, session):
            if status != "online" and session < seen.session:
                return state, []  # the will of an older session
            seen = replace(seen, status=status, session=session)
        case AboutHeard(_, prototype):
            seen = replace(seen, prototype=prototype)
        case Muted(_, until):
            seen = replace(seen, muted_until=until)
        case Revoked() | Allowed():
            seen = replace(seen, revoked=isinstance(event, Revoked))
    state = replace(state, devices={**state.devices, event.device: seen})
    return _leave(state, event.device) if seen.revoked else (state, [])


def _leave(state: RoundState, device: str) -> Stepped:
    """A revoked device, and what it sent, are taken out of the open round."""
    if state.phase is not Phase.COLLECTING or device not in state.invited:
        return state, []
    invited = {name: prototype for name, prototype in state.invited.items() if name != device}
    state = replace(state, invited=invited, answered=state.answered - {device})
    actions: list[Action] = [Withdraw(state.round, device)]
    if len(state.answered) == len(invited):
        state, more = _end(state, "no device is left")
        actions += more
    return state, actions


def _end(state: RoundState, reason: str) -> Stepped:
    """Close the open round now: with what is there if it is a quorum."""
    return _fuse(state) if len(state.answered) >= state.needed else _abandon(state, reason)


def _fuse(state: RoundState) -> Stepped:
    return replace(state, phase=Phase.FUSING), [Fuse(state.round)]


def _abandon(state: RoundState, reason: str) -> Stepped:
    return replace(state, phase=Phase.WAITING, deadline=math.inf), [Abandon(state.round, reason)]
