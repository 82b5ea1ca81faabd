"""Parsers of settings whose text differs from their value, in a flag, a variable or a file.

devices           12 · rpi4:10,rpi-zero2w:5             the board of every device
prototypes        cnn:fp32,cnn:w1                       names
option, fusion    NAME=VALUE, several times · a table   values by name
source_classes    0,1,2                                 class numbers
batch_devices     auto · off · 8                        0 · 1 · 8
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core import own_code
from core.errors import ConfigError
from core.limits import DEVICES

__all__ = [
    "own_models",
    "pairs",
    "parse_batch",
    "parse_classes",
    "parse_devices",
    "parse_fusion",
    "parse_partition_options",
    "parse_prototypes",
]

BOARD = "rpi-4"  # of devices given as a count instead of by board
BATCH_WORDS = {"auto": 0, "off": 1}


def parse_devices(text: str, hardware: str | None) -> tuple[str, ...]:
    """The board of every device; `hardware` is a user's file with further boards."""
    from fleet.virtual.hardware import known_hardware, parse_boards

    text = text.strip()
    if re.fullmatch(r"[+-]?[0-9]+", text):
        DEVICES.check(int(text[:30]), "--devices")
        return (BOARD,) * int(text)
    return parse_boards(text, known_hardware(None if hardware is None else Path(hardware)))


def parse_prototypes(text: str) -> tuple[str, ...]:
    """The names by which prototypes are known in a fleet; `own_models` has the files.

    >>> parse_prototypes("cnn:w1, nets/net.py:MyNet:fp32, timm:resnet18:fp32")
    ('cnn:w1', 'MyNet:fp32', 'timm.resnet18:fp32')
    """
    names = (name.strip() for name in text.split(",") if name.strip())
    return tuple(own_code.plain_name(re.sub(r"^(timm|torchvision):", r"\1.", name)) for name in names)


def own_models(text: str) -> dict[str, str]:
    """
    >>> own_models("cnn:w1,nets/net.py:MyNet:fp32,nets/net.py:MyNet:w1")
    {'MyNet': 'nets/net.py:MyNet'}
    """
    files: dict[str, str] = {}
    for match in re.finditer(rf"(?:^|,)\s*({own_code.IN_FILE.pattern})", text):
        if files.setdefault(match["name"], match[1]) != match[1]:
            raise ConfigError(f"two prototypes are called {match['name']!r}: {files[match['name']]} and {match[1]}")
    return files


def parse_classes(text: str) -> tuple[int, ...]:
    """
    >>> parse_classes("0, 2")
    (0, 2)
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(re.fullmatch(r"[0-9]{1,9}", word) for word in words):
        raise ConfigError(f"--source-classes {text[:80]!r}: give class numbers from 0, such as 0,1,2")
    return tuple(map(int, words))


def parse_batch(text: str) -> int:
    """
    >>> parse_batch("auto"), parse_batch("off"), parse_batch("8")
    (0, 1, 8)
    """
    if text not in BATCH_WORDS and not (re.fullmatch(r"[0-9]{1,9}", text) and int(text)):
        raise ConfigError(f"--batch-devices {text[:80]!r}: give auto, off, or how many devices")
    return BATCH_WORDS[text] if text in BATCH_WORDS else int(text)


def parse_partition_options(given: Mapping[str, Any] | Sequence[str]) -> dict[str, int | float | bool]:
    """Options of the partition (`fleet/partition/__init__.py`)."""
    from fleet.partition import parse_options

    return parse_options(pairs("option", given))


def parse_fusion(given: Mapping[str, Any] | Sequence[str]) -> dict[str, Any]:
    """Overrides of the recipe's fields (`aggregator/recipes/overrides.py`)."""
    from aggregator.recipes.overrides import parse_overrides

    return parse_overrides(pairs("fusion", given))


def pairs(key: str, given: Mapping[str, Any] | Sequence[str]) -> list[str]:
    """A table as command-line arguments; booleans are spelled as `key` expects them.

    >>> pairs("option", {"min_size": 0, "equal": False}), pairs("fusion", {"keep_start": True})
    (['min_size=0', 'equal=no'], ['keep_start=true'])
    """
    if not isinstance(given, Mapping):
        return list(given)
    no, yes = ("no", "yes") if key == "option" else ("false", "true")
    return [f"{name}={(yes if value else no) if isinstance(value, bool) else value}" for name, value in given.items()]
