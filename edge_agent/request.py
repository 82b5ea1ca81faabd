"""What the agent tells its training child, and how the child ends. Imports no torch."""

from __future__ import annotations

import msgspec

from wire.messages import Hyper

__all__ = ["DISK_FULL", "OUT_OF_MEMORY", "Request"]

#: Exit codes of the child besides those of `wire/errors.py`: the numbers of ENOMEM and ENOSPC.
OUT_OF_MEMORY, DISK_FULL = 12, 28


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One piece of work. With a round, train and leave an update; without, only take the model if it is good enough."""

    parent: int  # process id: the child ends with it
    key: str
    state_dir: str
    fleet: str
    device: str
    private_key: str  # path
    aggregator: str  # public key in hex
    prototype: str
    model: str  # path of the sealed artifact
    base: str  # its digest
    data: str
    validation: float
    refuse_worse: bool
    floats: str
    threads: int
    nice: int
    memory_mb: int | None
    round: int | None = None
    hyper: Hyper | None = None
    update: str = "state"
    bits: int | None = None
    stop_at: float | None = None  # of the system's monotonic clock, which parent and child share

    def encode(self) -> bytes:
        """As the child reads it from its standard input."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Request:
        """What `encode` wrote."""
        return msgspec.json.decode(data, type=cls)
