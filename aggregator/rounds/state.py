"""The state of the round engine, and what both of its modes derive from it. Values only, without I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeAlias

from aggregator.rounds.events import Action, GivenJob, Later
from wire.refusals import RefusalReason

__all__ = [
    "SETTLE_S",
    "Hold",
    "Phase",
    "RoundState",
    "Rules",
    "Seen",
    "Stepped",
    "Verdict",
    "eligible",
    "enter",
    "forget_presence",
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
    buffer: int = 0  # of asynchronous rounds: updates of one fusion; 0: synchronous
    concurrency: int = 0  # devices that train at a time; 0: `fraction` of those there are
    max_staleness: int | None = None  # versions; None: any


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
    working: Mapping[str, GivenJob] = field(default_factory=dict)  # asynchronous: who trains, and from what
    lapsed: Mapping[str, GivenJob] = field(default_factory=dict)  # their place is taken; an update still counts
    buffer: tuple[str, ...] = ()  # devices of the updates that wait for a fusion, in the order of acceptance
    given: int = 0  # number of the last job

    @property
    def in_round(self) -> Phase | None:
        """COLLECTING or FUSING if a round is open, even while the model of a new prototype is built."""
        phase = self.then if self.phase is Phase.STARTING else self.phase
        return phase if phase in (Phase.COLLECTING, Phase.FUSING) else None

    @property
    def awaited(self) -> set[str]:
        """Devices that may still answer: invited ones, or those that train."""
        if self.rules.buffer:
            return set(self.working)
        return self.invited.keys() - self.answered - self.gave_up

    def round_of(self, device: str) -> int:
        """The round of the device's job, or the open one."""
        return self.working[device].round if device in self.working else self.round

    def awaits(self, device: str, round_number: int) -> bool:
        """Whether the device may still answer a job of this round."""
        if self.rules.buffer:
            return device in self.working and self.working[device].round == round_number
        return self.phase is Phase.COLLECTING and round_number == self.round and device in self.awaited

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
        return max(1, math.ceil(self.rules.quorum * (self.rules.buffer or len(self.invited))))


Stepped: TypeAlias = tuple[RoundState, list[Action]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an update can be accepted: it counts, it is kept although late, or the reason against it."""

    refused: RefusalReason | None = None
    late: bool = False
    job: int = 0  # that it answers, in asynchronous rounds


def forget_presence(state: RoundState, settled: float) -> RoundState:
    """Nobody is online any more; devices that were are waited for until `settled`."""
    online = {device: seen for device, seen in state.devices.items() if seen.status == "online"}
    gone = {device: replace(seen, status="unknown") for device, seen in online.items()}
    waited = frozenset(device for device, seen in gone.items() if not seen.revoked)
    return replace(state, devices={**state.devices, **gone}, unheard=state.unheard | waited, settled=settled)


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


def enter(state: RoundState, phase: Phase) -> RoundState:
    """Set the next phase of the round; while a model is built, the phase after that."""
    return replace(state, then=phase) if state.phase is Phase.STARTING else replace(state, phase=phase)
