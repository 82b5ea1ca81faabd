"""The journal's rows as values: one frozen record per table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from wire.messages import DataState, Hyper
from wire.refusals import RefusalReason

__all__ = [
    "Answer",
    "Command",
    "DeviceRow",
    "Invitation",
    "JobRow",
    "ModelRow",
    "Refusal",
    "RoundRow",
    "UpdateRow",
    "data_text",
]

_SEPARATOR = "\x1f"  # between the text and the code of a refusal; never part of a text
_FAILED = "error: "  # prefix of the answer to a failed command


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRow:
    """A device and its counters."""

    id: str
    prototype: str | None = None
    board: str = ""
    examples: int = 0
    data: str = ""  # what it says of its samples, as JSON; "": nothing
    status: str = "unknown"  # online, offline, lost, or unknown since the last connection
    session: int = 0
    seen: float = 0.0  # time of its last message
    accepted: int = 0
    refused: int = 0
    late: int = 0
    muted_until: float = 0.0
    revoked: bool = False
    compute: str = ""  # the device that it trains on, such as "cuda:0 (Orin)"; empty before it has trained

    def state(self, now: float) -> str:
        """One word for it: revoked, muted, or its status."""
        if self.revoked:
            return "revoked"
        return "muted" if self.muted_until > now else self.status

    @property
    def samples(self) -> DataState:
        """What it says of its samples."""
        return msgspec.json.decode(self.data, type=DataState) if self.data else DataState()


def data_text(data: DataState) -> str:
    """`DataState` as the journal has it: an array, empty fields at the end included; "" if it says nothing."""
    return "" if data == DataState() else msgspec.json.encode(data).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRow:
    """A round: the contents of its jobs, and its phase."""

    number: int
    phase: str  # open, fusing, closed or abandoned
    deadline: float
    update: str
    bits: int | None
    hyper: Hyper
    recipe: str
    opened: float
    extended: bool = False
    closed: float | None = None
    reason: str = ""  # of an abandoned one
    buffer: int = 0  # updates that an asynchronous one fuses; 0: it is synchronous
    staleness: float = 0.0  # exponent of the weights of stale updates


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """A device invited to a round, and the model it starts from."""

    device: str
    prototype: str
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job of an asynchronous round: what a device was asked to train from, and whether it still may answer."""

    number: int
    round: int
    version: int  # fusions before it was given
    device: str
    prototype: str
    model: str
    side_artifact: str | None
    given: float
    deadline: float
    turn: int = 0  # jobs that the device was given before in this round
    state: str = "open"  # open, lapsed (its place is taken), answered or ended


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRow:
    """An accepted update; its sealed bytes are the blob `digest`."""

    device: str
    round: int
    transfer: str
    digest: str
    size: int
    prototype: str
    kind: str
    num_examples: int
    nonce: bytes
    received: float
    late: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)
    excluded: str = ""  # why it was excluded from its round
    job: int = 0  # number of the job that it answers; 0: an invitation to `round`


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A refused update. `why` is None in rows of older versions.

    The code is stored in the column of the text, after a unit separator (U+001F), so that the schema is unchanged.
    """

    device: str
    transfer: str
    round: int
    reason: str
    time: float
    why: RefusalReason | None = None

    @property
    def stored_reason(self) -> str:
        """The column `reason`."""
        return self.reason if self.why is None else f"{self.reason}{_SEPARATOR}{self.why.value}"

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> Refusal:
        """A refusal from its columns."""
        reason, _, code = row["reason"].partition(_SEPARATOR)
        return cls(**{**row, "reason": reason, "why": RefusalReason(code) if code else None})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """A published model and its lineage; its sealed bytes are the blob `digest`."""

    digest: str
    prototype: str
    round: int  # in which it was fused; 0: the first model
    origin: str  # start, fused or rollback
    recipe: str
    parents: tuple[str, ...]  # the previous model, then updates
    metrics: Mapping[str, float]
    size: int
    created: float
    number: int = 0  # in the order of publication; 0: not stored yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A request of another process to the service."""

    id: int
    verb: str
    argument: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a command."""

    text: str
    failed: bool = False

    @property
    def stored(self) -> str:
        """The column `answer`."""
        return f"{_FAILED}{self.text}" if self.failed else self.text

    @classmethod
    def read(cls, column: str) -> Answer:
        """An answer from its column."""
        return cls(column.removeprefix(_FAILED), failed=column.startswith(_FAILED))
