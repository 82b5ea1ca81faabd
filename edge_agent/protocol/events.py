"""What happens to an agent, and what it decides to do: the vocabulary of `edge_agent/protocol/agent.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


# ---- events: what happened


@dataclass(frozen=True, slots=True)
class Tick:
    """It is `now`, in seconds of a clock that only goes forward; no other event carries a time."""

    now: float


@dataclass(frozen=True, slots=True)
class Connected:
    """The broker is there, and what is always subscribed to is subscribed to."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The broker is gone, and with it every subscription."""


@dataclass(frozen=True, slots=True)
class Instructed:
    """The job topic says this; None: nothing to do. `seconds_left` until a job's deadline, None if it has none."""

    instruction: Job | Offer | None
    seconds_left: float | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """The aggregator has answered an upload."""

    ack: Ack


@dataclass(frozen=True, slots=True)
class Resumed:
    """The model is not at hand; of its chunks (None: how many is not known) those of `missing` are not yet stored."""

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
    """The model is on disk and its digest is right."""

    digest: str


@dataclass(frozen=True, slots=True)
class FetchFailed:
    """The chunks of a model made no model, and were thrown away."""

    digest: str
    reason: str


@dataclass(frozen=True, slots=True)
class TrainingDone:
    """The child has ended well; `spooled` is the update that it left, None if there was only a model to take."""

    key: str
    spooled: Spooled | None = None


@dataclass(frozen=True, slots=True)
class TrainingFailed:
    """The child has ended badly; `again` if another attempt may help."""

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

# ---- actions: what to do about it


@dataclass(frozen=True, slots=True)
class Announce:
    """Publish the state and what the device is."""


@dataclass(frozen=True, slots=True)
class Follow:
    """Keep on the disk what is the newest now; `forget` before what belongs to an older epoch."""

    newest: Newest
    forget: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """Is this model at hand? Answer with `Fetched` or `Resumed`."""

    digest: str


@dataclass(frozen=True, slots=True)
class Subscribe:
    """To these chunks of a model."""

    digest: str
    numbers: Sequence[int]


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """From these chunks of a model."""

    digest: str
    numbers: Sequence[int]


@dataclass(frozen=True, slots=True)
class CheckModel:
    """All chunks are stored: check the whole. Answer with `Fetched` or `FetchFailed`."""

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
    """Kill the child; if it has left an update all the same, say so with `TrainingDone`."""

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
    """Tell the aggregator that nothing will come of this round, and why."""

    round: int
    reason: str


@dataclass(frozen=True, slots=True)
class Say:
    """Log this."""

    level: Literal["debug", "info", "warning", "error"]
    text: str


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
