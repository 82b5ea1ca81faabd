"""The contents of a source: an entry for each sample, before it is decoded, and the files that are unusable."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = ["DIGEST_BYTES", "Entry", "Label", "Listing", "digest_bytes", "printable"]

DIGEST_BYTES = 16
Label: TypeAlias = "int | str | None"


@dataclass(frozen=True, slots=True)
class Entry:
    """One sample. All random decisions about it are derived from `digest`, the hash of its content."""

    name: str  # of its file, or its place in one
    label: Label  # a class name, or a label from 0; None: not labelled yet
    digest: bytes
    time: float = 0.0  # seconds since 1970, or a number that grows from sample to sample
    place: Any = None  # for its source to find it


@dataclass(slots=True)
class Listing:
    """The current contents of a source."""

    entries: list[Entry] = field(default_factory=list)
    rejected: dict[str, str] = field(default_factory=dict)  # files, or parts of them, and why
    writing: int = 0  # files that are still being written
    unchecked: int = 0  # files that there was no time to check
    beyond: int = 0  # samples that do not fit the memory
    passed_over: dict[str, str] = field(default_factory=dict)  # what is no sample, and why


def printable(text: str, most: int = 200) -> str:
    """A file's name, a label or a reason as part of one line: it may hold anything, and is stored and sent.

    >>> printable("a\\nb\\udcff")
    'a?b?'
    """
    return "".join(c if c.isprintable() else "?" for c in text[:most])


def digest_bytes(content: bytes | memoryview) -> bytes:
    """The hash that identifies a sample."""
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()
