"""Replay protection: the newest instruction that a device has followed. Without I/O.

An instruction is older, and refused, if its epoch is; in the same epoch, if the round of a job is, or the number of its
model among those published for the prototype. A newer epoch is followed whatever its round: the aggregator begins one
when a backup is restored, and round and model numbers restart. docs/protocol.md has the complete rule.

Jobs and offers are identified by keys, which are also file names. A key starts with the epoch, so that a round of a
restored fleet is never mistaken for the earlier round of the same number; keys of versions without epochs have none.
"""

from __future__ import annotations

import hashlib
import re
from typing import Annotated

import msgspec
from msgspec import Meta

from wire.messages import Job, Offer

__all__ = ["Newest", "epoch_of", "instruction_key", "plain_key", "round_of"]

_KEY = re.compile(r"(?:e(\d{16})-)?(\d{10})-[0-9a-f]{16}")
Number = Annotated[int, Meta(ge=0, le=2**53)]


class Newest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The newest epoch, the newest round of a job in it, and the newest model of each prototype by its number."""

    epoch: Number = 0  # 0: none received yet
    round: Number = 0
    numbers: Annotated[dict[str, Number], Meta(max_length=256)] = {}

    def refusal(self, new: Job | Offer) -> str:
        """Why `new` is refused, and a remedy; empty if it is not older than the last instruction followed."""
        if new.epoch > self.epoch:
            return ""
        if new.epoch < self.epoch:
            return (
                f"its epoch {new.epoch} is older than {self.epoch}, which this device has followed; "
                "it was replayed, or two aggregators serve one fleet"
            )
        if isinstance(new, Job) and new.round < self.round:
            return f"round {self.round} was begun before; {_REPLAYED}"
        newest = self.numbers.get(new.prototype, 0)
        return f"its model {new.number} is older than {newest}; {_REPLAYED}" if new.number < newest else ""

    def after(self, new: Job | Offer, *, mine: bool) -> Newest:
        """Updated by `new`, which is not older; its model number is recorded if the prototype is this device's."""
        before = self if new.epoch == self.epoch else Newest(epoch=new.epoch)
        numbers = {**before.numbers, new.prototype: new.number} if mine else before.numbers
        number = max(before.round, new.round) if isinstance(new, Job) else before.round
        return Newest(epoch=new.epoch, round=number, numbers=numbers)


_REPLAYED = "it was replayed, or a backup was put back without `edgestill aggregator restore`"


def instruction_key(instruction: Job | Offer) -> str:
    """A file name for this job or offer, independent of the deadline."""
    epoch = f"e{instruction.epoch:016d}-" if instruction.epoch else ""
    if isinstance(instruction, Offer):
        return f"{epoch}offer-{instruction.model[:32]}"
    job = instruction
    # the fields of jobs before epochs existed: an upgrade in place finds the work of the open round
    same = ("job", job.round, 0.0, job.prototype, job.update, job.hyper, job.model, job.bits, job.side_artifact)
    digest = hashlib.blake2b(msgspec.msgpack.encode(same), digest_size=8).hexdigest()
    return f"{epoch}{job.round:010d}-{digest}"


def plain_key(key: str) -> str:
    """The key of the same job in versions without epochs."""
    return key.partition("-")[2] if key.startswith("e") else key


def epoch_of(key: str) -> int | None:
    """The epoch of a job's key; None if it has none, or is not a key."""
    found = _KEY.fullmatch(key)
    return int(found[1]) if found and found[1] else None


def round_of(key: str) -> int:
    """The round of a job's key; 0 if it is not a key."""
    found = _KEY.fullmatch(key)
    return int(found[2]) if found else 0
