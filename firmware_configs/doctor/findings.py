"""A finding is ok, a warning (the agent runs, but not as well as it could) or a failure (it will not run)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Finding", "Level", "finding"]

Level: TypeAlias = Literal["ok", "warning", "failure"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    level: Level
    what: str
    said: str


def finding(good: bool, what: str, said: str, otherwise: str | None = None, level: Level = "failure") -> Finding:
    """`said` if it is good, else `otherwise`."""
    return Finding("ok", what, said) if good else Finding(level, what, otherwise or said)
