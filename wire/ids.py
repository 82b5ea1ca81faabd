"""Names of fleets, devices, transfers and contents, and what each may look like."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from core.errors import TopicError

__all__ = ["AGGREGATOR", "ALL", "check_device", "check_digest", "check_id", "digest_of", "transfer_id"]

ID = re.compile(r"[a-z0-9-]{1,48}")
DIGEST = re.compile(r"[0-9a-f]{64}")
#: Stands in a device's place in the topics of published artifacts.
ALL = "all"
#: The sender of everything that flows down.
AGGREGATOR = "aggregator"


def check_id(value: str, what: str) -> None:
    """Refuse what is not 1 to 48 of a-z, 0-9 and '-'."""
    if not isinstance(value, str) or not ID.fullmatch(value):
        raise TopicError(f"{what} {_short(value)}: an id is 1 to 48 of a-z, 0-9 and '-'")


def check_device(value: str) -> None:
    """Refuse what is not an id, and the ids that mean something else."""
    check_id(value, "device")
    if value in (ALL, AGGREGATOR):
        raise TopicError(f"device {value!r}: this id is reserved; choose another")


def check_digest(value: str) -> None:
    """Refuse what is not a SHA-256 in 64 lowercase hex digits."""
    if not isinstance(value, str) or not DIGEST.fullmatch(value):
        raise TopicError(f"digest {_short(value)}: must be a SHA-256 in 64 lowercase hex digits")


def digest_of(data: bytes | Iterable[bytes | memoryview]) -> str:
    """SHA-256 in hex of some bytes, or of pieces in a row."""
    sha = hashlib.sha256()
    for piece in (data,) if isinstance(data, bytes | bytearray | memoryview) else data:
        sha.update(piece)
    return sha.hexdigest()


def transfer_id(digest: str) -> str:
    """The id under which content travels up: derived from it, so that sending again is the same transfer."""
    check_digest(digest)
    return digest[:32]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
