"""What happens to the round engine (events) and what it wants done (actions)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "Abandon",
    "AboutHeard",
    "Action",
    "Allowed",
    "Close",
    "Event",
    "Extend",
    "Finish",
    "Fuse",
    "Fused",
    "GaveUp",
    "ModelsReady",
    "Muted",
    "Open",
    "Pause",
    "Resume",
    "Revoked",
    "RolledBack",
    "SetAside",
    "Skip",
    "StateHeard",
    "Stop",
    "Stored",
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
class StateHeard:
    """A device says that it is there, or its will that it is not."""

    device: str
    status: str
    session: int


@dataclass(frozen=True, slots=True)
class AboutHeard:
    """A device says which prototype it trains."""

    device: str
    prototype: str


@dataclass(frozen=True, slots=True)
class Muted:
    """A device has sent only garbage."""

    device: str
    until: float


@dataclass(frozen=True, slots=True)
class Revoked:
    """The operator has put a device out of the fleet."""

    device: str


@dataclass(frozen=True, slots=True)
class Allowed:
    """The operator has taken a revocation back."""

    device: str


@dataclass(frozen=True, slots=True)
class Stored:
    """An update that counts for the open round is durable."""

    device: str
    round: int


@dataclass(frozen=True, slots=True)
class GaveUp:
    """A device says that nothing will come of a round."""

    device: str
    round: int


@dataclass(frozen=True, slots=True)
class Fused:
    """The worker has fused the round; the accuracy by prototype, where there is one."""

    round: int
    accuracies: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class SetAside:
    """The update of this device cannot be fused, and why: the round goes on without it."""

    device: str
    reason: str


@dataclass(frozen=True, slots=True)
class Unfusable:
    """The round cannot be fused, and why: give it up."""

    reason: str


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The operator has put back an older model."""


@dataclass(frozen=True, slots=True)
class Skip:
    """The operator gives up the open round."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Open no further round; the open one goes on."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Open rounds again."""


@dataclass(frozen=True, slots=True)
class Stop:
    """No further round; close the open one with what is there."""


Event: TypeAlias = (
    Tick
    | ModelsReady
    | StateHeard
    | AboutHeard
    | Muted
    | Revoked
    | Allowed
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
class Open:
    """Open this round and send its jobs."""

    round: int
    invited: Mapping[str, str]
    deadline: float


@dataclass(frozen=True, slots=True)
class Extend:
    """The round goes on until a later deadline."""

    round: int
    deadline: float


@dataclass(frozen=True, slots=True)
class Abandon:
    """Give the round up."""

    round: int
    reason: str


@dataclass(frozen=True, slots=True)
class Withdraw:
    """A device leaves the round, and its update with it."""

    round: int
    device: str
    reason: str


@dataclass(frozen=True, slots=True)
class Fuse:
    """Take no more updates and fuse; while the round is being fused, begin anew with the updates that are left."""

    round: int


@dataclass(frozen=True, slots=True)
class Close:
    """Commit the fused models; the round is over."""

    round: int


@dataclass(frozen=True, slots=True)
class Finish:
    """No further round will be opened."""

    reason: str


Action: TypeAlias = Open | Extend | Abandon | Withdraw | Fuse | Close | Finish
