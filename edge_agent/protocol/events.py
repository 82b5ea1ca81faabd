"""Events and actions of the agent's state machine, `edge_agent/protocol/agent.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from edge_agent.protocol.replay import Newest
from wire.messages import Ack, Job, Offer
from wire.ranges import Ranges

__all__ = [
    "Action",
    "Announce",
    "Answered",
    "CheckModel",
    "ChunkStored",
    "Connected",
    "Disconnected",
    "Event",
    "FetchFailed",
    "Fetched",
    "Follow",
    "Instructed",
    "Look",
    "Report",
    "Resumed",
    "Say",
    "SendChunk",
    "Settle",
    "Spooled",
    "StartTraining",
    "StopTraining",
    "Subscribe",
    "Tick",
    "TrainingDone",
    "TrainingFailed",
    "Unsubscribe",
]


@dataclass(frozen=True, slots=True)
class Spooled:
    """A sealed update in the outbox."""

    key: str  # of its job
    round: int
    transfer: str
    count: int  # chunks


# ---- events


@dataclass(frozen=True, slots=True)
class Tick:
    """The time `now`, in seconds of a monotonic clock; no other event carries a time."""

    now: float


@dataclass(frozen=True, slots=True)
class Connected:
    """Connected to the broker, with the fixed subscriptions."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """Disconnected; all subscriptions are lost."""


@dataclass(frozen=True, slots=True)
class Instructed:
    """The message on the job topic; None: no work. `seconds_left` until a job's deadline, None if it has none."""

    instruction: Job | Offer | None
    seconds_left: float | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """The aggregator has answered an upload."""

    ack: Ack


@dataclass(frozen=True, slots=True)
class Resumed:
    """The model is not cached; of its chunks (None: unknown number) those in `missing` are not yet stored."""

    digest: str
    count: int | None = None
    missing: Ranges = ()


@dataclass(frozen=True, slots=True)
class ChunkStored:
    """Chunk `n` of `count` is on disk."""

    digest: str
    n: int
    count: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """The model is on disk and its digest was verified."""

    digest: str


@dataclass(frozen=True, slots=True)
class FetchFailed:
    """The chunks of a model were invalid, and are deleted."""

    digest: str
    reason: str


@dataclass(frozen=True, slots=True)
class TrainingDone:
    """The child has succeeded; `spooled` is its update, None if it only installed a model."""

    key: str
    spooled: Spooled | None = None


@dataclass(frozen=True, slots=True)
class TrainingFailed:
    """The child has failed; `again` if a retry may help."""

    key: str
    reason: str
    again: bool


Event: TypeAlias = (
    Tick
    | Connected
    | Disconnected
    | Instructed
    | Answered
    | Resumed
    | ChunkStored
    | Fetched
    | FetchFailed
    | TrainingDone
    | TrainingFailed
)

# ---- actions


@dataclass(frozen=True, slots=True)
class Announce:
    """Publish `State` and `About`."""


@dataclass(frozen=True, slots=True)
class Follow:
    """Store the newest instruction on disk; first `forget` the state of an older epoch."""

    newest: Newest
    forget: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """Look up this model in the cache. Answer with `Fetched` or `Resumed`."""

    digest: str


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Subscribe to these chunks of a model."""

    digest: str
    numbers: Sequence[int]


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Unsubscribe from these chunks of a model."""

    digest: str
    numbers: Sequence[int]


@dataclass(frozen=True, slots=True)
class CheckModel:
    """All chunks are stored: verify the digest. Answer with `Fetched` or `FetchFailed`."""

    digest: str


@dataclass(frozen=True, slots=True)
class StartTraining:
    """Start the child; answer with `TrainingDone` or `TrainingFailed`."""

    key: str
    instruction: Job | Offer
    attempt: int  # from 1
    seconds_left: float | None


@dataclass(frozen=True, slots=True)
class StopTraining:
    """Kill the child; if it has already committed an update, answer with `TrainingDone`."""

    key: str


@dataclass(frozen=True, slots=True)
class SendChunk:
    """Publish chunk `n` of an update in the outbox."""

    transfer: str
    n: int


@dataclass(frozen=True, slots=True)
class Settle:
    """The update was answered: mark its round finished, then remove it from the outbox."""

    spooled: Spooled
    accepted: bool


@dataclass(frozen=True, slots=True)
class Report:
    """Report to the aggregator that this round cannot be finished, and why."""

    round: int
    reason: str


@dataclass(frozen=True, slots=True)
class Say:
    """Log this; `round` is that of the line, if it is about one."""

    level: Literal["debug", "info", "warning", "error"]
    text: str
    round: int | None = field(default=None, compare=False)


Action: TypeAlias = (
    Announce
    | Follow
    | Look
    | Subscribe
    | Unsubscribe
    | CheckModel
    | StartTraining
    | StopTraining
    | SendChunk
    | Settle
    | Report
    | Say
)
