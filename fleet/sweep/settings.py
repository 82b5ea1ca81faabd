"""What a run of a sweep is told, as the command line of `edgestill simulate`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.sweep.grid import Flag, Settings

__all__ = ["flags_of"]

BOTH = ("false", "true")
WORDS = {"option": ("no", "yes")}  # of partitions; recipes read JSON


def flags_of(settings: Settings, flags: Mapping[str, Flag]) -> list[str]:
    """The command line of these settings."""
    words: list[str] = []
    for name, value in settings.items():
        flag = flags[name]
        if flag.repeated:
            words += [f"{flag.flag}={pair}" for pair in _pairs(name, value)]
        elif flag.kind is bool:
            words += [flag.flag] if value else []
        else:
            words.append(f"{flag.flag}={value}")  # one word: a value may start with a dash
    return words


def _pairs(name: str, table: Mapping[str, Any]) -> list[str]:
    """The table of a flag that may be repeated, as a command line writes it."""
    return [f"{field}={_text(value, *WORDS.get(name, BOTH))}" for field, value in table.items()]


def _text(value: Any, no: str, yes: str) -> str:
    return (yes if value else no) if isinstance(value, bool) else str(value)
