"""Ids of fleets, devices, transfers and contents, and their syntax."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from core.errors import TopicError

__all__ = ["AGGREGATOR", "ALL", "check_device", "check_digest", "check_id", "digest_of", "transfer_id"]

ID = re.compile(r"[a-z0-9-]{1,48}")
DIGEST = re.compile(r"[0-9a-f]{64}")
#: Takes the place of the device in topics of published artifacts.
ALL = "all"
#: The sender of everything that flows down.
AGGREGATOR = "aggregator"


def check_id(value: str, what: str) -> None:
    """Raise TopicError unless `value` is 1 to 48 characters of a-z, 0-9 and '-'."""
    if not isinstance(value, str) or not ID.fullmatch(value):
        raise TopicError(f"{what} {_short(value)}: an id is 1 to 48 of a-z, 0-9 and '-'")


def check_device(value: str) -> None:
    """Raise TopicError unless `value` is an id and not a reserved one."""
    check_id(value, "device")
    if value in (ALL, AGGREGATOR):
        raise TopicError(f"device {value!r}: this id is reserved; choose another")


def check_digest(value: str) -> None:
    """Raise TopicError unless `value` is a SHA-256 in 64 lowercase hex digits."""
    if not isinstance(value, str) or not DIGEST.fullmatch(value):
        raise TopicError(f"digest {_short(value)}: must be a SHA-256 in 64 lowercase hex digits")


def digest_of(data: bytes | Iterable[bytes | memoryview]) -> str:
    """SHA-256 in hex of some bytes, or of concatenated pieces."""
    sha = hashlib.sha256()
    for piece in (data,) if isinstance(data, bytes | bytearray | memoryview) else data:
        sha.update(piece)
    return sha.hexdigest()


def transfer_id(digest: str) -> str:
    """The transfer id of uploaded content: derived from its digest, so that a retry is the same transfer."""
    check_digest(digest)
    return digest[:32]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
