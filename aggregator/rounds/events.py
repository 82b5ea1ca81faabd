"""Events and actions of the round engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from aggregator.rounds.state import Rules

__all__ = [
    "Abandon",
    "AboutHeard",
    "Action",
    "Allowed",
    "AskAgain",
    "BrokerConnected",
    "BrokerLost",
    "Close",
    "DropBuffer",
    "EndJobs",
    "Event",
    "Extend",
    "Finish",
    "Fuse",
    "Fused",
    "GaveUp",
    "Give",
    "GivenJob",
    "Lapse",
    "Later",
    "Missed",
    "ModelsReady",
    "Muted",
    "Open",
    "Pause",
    "Reloaded",
    "Resume",
    "Revoked",
    "RolledBack",
    "SetAside",
    "Skip",
    "StateHeard",
    "Stop",
    "Stored",
    "Throttled",
    "Tick",
    "Unfusable",
    "Withdraw",
]


@dataclass(frozen=True, slots=True)
class Tick:
    """The time, in seconds since 1970."""

    now: float


@dataclass(frozen=True, slots=True)
class ModelsReady:
    """Every prototype has a model."""


@dataclass(frozen=True, slots=True)
class BrokerConnected:
    """The aggregator is connected to its broker, which now sends the retained state of every device."""

    now: float


@dataclass(frozen=True, slots=True)
class BrokerLost:
    """The aggregator has lost its broker, and with it all knowledge of which devices are online."""


@dataclass(frozen=True, slots=True)
class StateHeard:
    """A device reports that it is online, or its will that it is lost."""

    device: str
    status: str
    session: int


@dataclass(frozen=True, slots=True)
class AboutHeard:
    """A device reports its prototype, and whether it still waits for samples."""

    device: str
    prototype: str
    waiting: bool = False


@dataclass(frozen=True, slots=True)
class Muted:
    """A device has sent only garbage."""

    device: str
    until: float


@dataclass(frozen=True, slots=True)
class Revoked:
    """The operator has revoked a device."""

    device: str


@dataclass(frozen=True, slots=True)
class Allowed:
    """The operator has undone a revocation."""

    device: str


@dataclass(frozen=True, slots=True)
class Throttled:
    """A device reports that its processor is slowed down, or no longer."""

    device: str
    throttled: bool


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The operator's settings have changed, between two rounds; these devices are known now."""

    rules: Rules
    known: frozenset[str]
    accuracies: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Stored:
    """An update that counts is durable; `job` is the one that it answers, in asynchronous rounds."""

    device: str
    round: int
    job: int = 0


@dataclass(frozen=True, slots=True)
class GaveUp:
    """A device reports that it cannot finish a round."""

    device: str
    round: int


@dataclass(frozen=True, slots=True)
class Fused:
    """The worker has fused the round; the accuracy by prototype, if measured."""

    round: int
    accuracies: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class SetAside:
    """The update of this device cannot be fused, and why: the round continues without it."""

    device: str
    reason: str


@dataclass(frozen=True, slots=True)
class Unfusable:
    """The round cannot be fused, and why: abandon it."""

    reason: str


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The operator has rolled back to an older model."""


@dataclass(frozen=True, slots=True)
class Skip:
    """The operator abandons the open round."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Open no further round; the open one continues."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Open rounds again."""


@dataclass(frozen=True, slots=True)
class Stop:
    """No further round; close the open one with the updates received so far."""


Event: TypeAlias = (
    Tick
    | ModelsReady
    | BrokerConnected
    | BrokerLost
    | StateHeard
    | AboutHeard
    | Muted
    | Revoked
    | Allowed
    | Throttled
    | Reloaded
    | Stored
    | GaveUp
    | Fused
    | SetAside
    | Unfusable
    | RolledBack
    | Skip
    | Pause
    | Resume
    | Stop
)


@dataclass(frozen=True, slots=True)
class Later:
    """These devices have a later deadline than the others."""

    devices: frozenset[str]
    deadline: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenJob:
    """A job of an asynchronous round."""

    number: int  # in the order in which they were given, from 1
    round: int  # the open one at that time
    version: int  # fusions before it
    prototype: str
    deadline: float


@dataclass(frozen=True, slots=True)
class Open:
    """Open this round and send its jobs."""

    round: int
    invited: Mapping[str, str]
    deadline: float
    later: Later | None = None


@dataclass(frozen=True, slots=True)
class Extend:
    """Extend the deadline of the round."""

    round: int
    deadline: float


@dataclass(frozen=True, slots=True)
class Abandon:
    """Abandon the round."""

    round: int
    reason: str


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Remove a device and its update from the round."""

    round: int
    device: str
    reason: str


@dataclass(frozen=True, slots=True)
class Fuse:
    """Accept no more updates and fuse; if fusing has begun, restart it with the remaining updates.

    `take`: the oldest updates of the buffer, which become those of the round.
    """

    round: int
    take: int = 0


@dataclass(frozen=True, slots=True)
class Close:
    """Commit the fused models; the round is over."""

    round: int


@dataclass(frozen=True, slots=True)
class Missed:
    """These devices were online before the last connection, and have sent nothing since."""

    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """No further round will be opened."""

    reason: str


@dataclass(frozen=True, slots=True)
class Give:
    """Give this device a job against the newest model of its prototype."""

    device: str
    job: GivenJob


@dataclass(frozen=True, slots=True)
class Lapse:
    """The deadlines of these jobs have passed, and others need their places; their updates still count."""

    jobs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EndJobs:
    """Updates of these jobs are no longer taken."""

    jobs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DropBuffer:
    """Fuse none of the updates in the buffer."""

    reason: str


@dataclass(frozen=True, slots=True)
class AskAgain:
    """Devices that gave up jobs of this round may get others, and again at the deadline."""

    round: int
    deadline: float


Action: TypeAlias = (
    Open | Extend | Abandon | Withdraw | Fuse | Close | Missed | Finish | Give | Lapse | EndJobs | DropBuffer | AskAgain
)
