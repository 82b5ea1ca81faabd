"""Board profiles: one TOML file per board, checked when it is read.

A profile describes a board (architecture, memory, accelerator, supported OS families, source of torch) and sensible
agent settings for it. `models` are prefixes of `/proc/device-tree/model`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.config_keys import Key, read_toml, sub_table, take
from core.errors import ConfigError, did_you_mean
from core.limits import BATCH, MEGABYTES
from firmware_configs.kit import FAMILIES
from models.spec import parse_prototype

__all__ = ["Board", "board", "board_of_model", "boards", "read_board"]

FOLDER = Path(__file__).parent
_KEYS = {
    "title": Key(str),
    "arch": Key(str, choices=("arm64", "amd64")),
    "memory_mb": Key(int, least=256, most=MEGABYTES.most),
    "accelerator": Key(str, choices=("none", "cuda")),
    "os": Key(tuple),
    "models": Key(tuple),
    "torch": Key(str, choices=("pip", "jetson", "none")),
    "notes": Key(str, ""),
    "agent": Key(dict),
}
_AGENT = {
    "mode": Key(str, choices=("full", "light")),
    "threads": Key(int, least=1, most=1024),
    "train_mb": Key(int, least=64, most=MEGABYTES.most),
    "service_mb": Key(int, least=128, most=MEGABYTES.most),
    "batch_size": Key(int, least=1, most=BATCH.most),
    "prototypes": Key(tuple),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One kind of board, and the agent settings for it."""

    name: str
    title: str
    arch: str
    memory_mb: int
    accelerator: str
    os: tuple[str, ...]  # families of firmware_configs/kit.py
    models: tuple[str, ...]
    torch: str  # pip: from the default index; jetson: from NVIDIA's; none: not available, or too large
    notes: str
    mode: str  # full | light, see docs/agent.md
    threads: int
    train_mb: int  # of the training child
    service_mb: int  # of agent and child together
    batch_size: int  # the largest that fits
    prototypes: tuple[str, ...]

    def __post_init__(self) -> None:
        for family in self.os:
            if family not in FAMILIES:
                raise ConfigError(f"'os': {family!r}{did_you_mean(family, FAMILIES)}; known: {' '.join(FAMILIES)}")
        if not self.os or not self.prototypes:
            raise ConfigError("'os' and 'prototypes' name at least one each")
        for prototype in self.prototypes:
            parse_prototype(prototype)
        if not self.train_mb < self.service_mb < self.memory_mb:
            raise ConfigError("expected train_mb < service_mb < memory_mb: the board needs some memory for itself")
        if self.mode == "full" and self.torch == "none":
            raise ConfigError("mode is full, but there is no torch for this board; set mode to light")

    @property
    def extra(self) -> str:
        """The extra of the package that an agent on this board needs; empty for the base install."""
        return "train" if self.mode == "full" else ""


def read_board(path: Path) -> Board:
    """The profile in the file at `path`, named after the file."""
    values = take(read_toml(path), path.name, _KEYS)
    agent: dict[str, Any] = take(sub_table(values, "agent", path.name), f"{path.name} [agent]", _AGENT)
    del values["agent"]
    try:
        return Board(name=path.stem, **values, **agent)
    except ConfigError as error:
        raise ConfigError(f"{path.name}: {error}") from None


@functools.cache
def boards() -> dict[str, Board]:
    """Every profile, by name."""
    return {path.stem: read_board(path) for path in sorted(FOLDER.glob("*.toml"))}


def board(name: str) -> Board:
    """The profile called `name`."""
    known = boards()
    if name not in known:
        hint = did_you_mean(name, known) or f"; known: {' '.join(known)}"
        raise ConfigError(f"no board {name!r}{hint}")
    return known[name]


def board_of_model(model: str, arch: str) -> Board | None:
    """The profile of a board with this `model`; else the generic one of its architecture, if there is one."""
    found = [(len(start), b.name) for b in boards().values() for start in b.models if model.startswith(start)]
    name = max(found)[1] if found else f"generic-{arch}"  # the longest prefix is the most specific
    return boards().get(name)
