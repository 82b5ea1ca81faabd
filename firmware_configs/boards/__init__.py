"""Board profiles: one TOML file per board, checked when it is read.

A profile describes a board (architecture, memory, accelerator, supported OS families and their Pythons, source of
torch), its speed and power in virtual time, and sensible agent settings for it. `models` are prefixes of
`/proc/device-tree/model`. A user's own profiles are files of the same form in the folder `[provision] boards_dir`; one
with the name of a shipped profile replaces it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from core.config_keys import read_toml, sub_table
from core.errors import ConfigError, did_you_mean
from core.limits import BATCH, MEGABYTES
from core.settings import Settings, describe, given, within
from edge_agent.config import Mode
from firmware_configs.boards.hardware import Hardware
from models.spec import parse_prototype

__all__ = ["PROFILE", "PYTHONS", "Board", "board", "board_of_model", "boards", "find", "own_profile", "read_board"]

FOLDER = Path(__file__).parent
PROFILE = "board.toml"  # a profile of the user's own in a kit, and on the board beside agent.toml
#: Raspberry Pi OS Bookworm; Trixie and Ubuntu; JetPack; anything with systemd, by hand or over ssh.
FAMILIES = ("bookworm", "cloud-init", "jetson", "generic")
#: Of JetPack 6 and Ubuntu 22.04, of Bookworm, of JetPack 7 and Ubuntu 24.04, of Trixie.
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
AGENT = ("mode", "threads", "train_mb", "service_mb", "batch_size", "prototypes")  # of the table [agent]


class Board(Settings, frozen=True, kw_only=True):
    """One kind of board, and how an agent is set up on it."""

    name: str  # of the file
    title: str
    arch: Literal["arm64", "amd64"]
    memory_mb: Annotated[int, within(256, MEGABYTES.most)]
    accelerator: Literal["none", "cuda"]
    os: Annotated[tuple[str, ...], Meta(description="families of `FAMILIES`")]
    python: Annotated[Mapping[str, Any], Meta(description="the version of Python, by family")]
    models: tuple[str, ...]
    torch: Annotated[
        Literal["cpu", "jetson", "none"], Meta(description="for processors, NVIDIA's for JetPack, or it does not fit")
    ]
    notes: str = ""
    hardware: Annotated[Hardware | None, Meta(description="speed and power, for `simulate --virtual-clock`")] = None
    mode: Annotated[Mode, Meta(description="see docs/agent.md")]
    threads: Annotated[int, within(1, 1024)]
    train_mb: Annotated[int, within(64, MEGABYTES.most, "memory limit of the training child")]
    service_mb: Annotated[int, within(128, MEGABYTES.most, "memory limit of agent and child together")]
    batch_size: Annotated[int, within(1, BATCH.most, "largest batch size of a job that fits")]
    prototypes: tuple[str, ...]

    def __post_init__(self) -> None:
        for family in self.os:
            if family not in FAMILIES:
                raise ConfigError(f"'os': {family!r}{did_you_mean(family, FAMILIES)}; known: {' '.join(FAMILIES)}")
            if self.python.get(family) not in PYTHONS:
                raise ConfigError(f"'python' has no version for {family}; one of {' '.join(PYTHONS)}")
        if not self.os or not self.prototypes:
            raise ConfigError("'os' and 'prototypes' name at least one each")
        for prototype in self.prototypes:
            parse_prototype(prototype)
        if not self.train_mb < self.service_mb < self.memory_mb:
            raise ConfigError("expected train_mb < service_mb < memory_mb: the board needs some memory for itself")
        if self.mode == "full" and self.torch == "none":
            raise ConfigError("mode is full, but there is no torch for this board; set mode to light")

    @property
    def device(self) -> str:
        """[train] device of its agents: a GPU where the board has one and torch finds it."""
        return "auto" if self.accelerator == "cuda" else "cpu"

    @property
    def extra(self) -> str:
        """The extra of the package that an agent on this board needs; empty for the base install."""
        return "train" if self.mode == "full" else ""


def own_profile(name: str, own: Path | None) -> Path | None:
    """The file of a profile of the user's own, in the folder `own`; None if edgestill brings that profile."""
    path = None if own is None else own / f"{name}.toml"
    return path if path is not None and path.is_file() else None


def read_board(path: Path, name: str = "") -> Board:
    """The profile in the file at `path`, named as the file is, or `name`."""
    table, fields = read_toml(path), describe(Board)
    agent = sub_table(table, "agent", path.name)
    own = {name: field for name, field in fields.items() if name not in ("name", *AGENT)}
    values = given(own, {k: v for k, v in table.items() if k != "agent"}, path.name, complete=True)
    values |= given({name: fields[name] for name in AGENT}, agent, f"{path.name} [agent]", complete=True)
    try:
        return Board(name=name or path.stem, **values)
    except ConfigError as error:
        raise ConfigError(f"{path.name}: {error}") from None


def boards(own: Path | None = None) -> dict[str, Board]:
    """Every profile, by name; those of the folder `own` first."""
    return _read_boards(own)


@functools.cache
def _read_boards(own: Path | None) -> dict[str, Board]:
    if own is not None and not own.is_dir():
        raise ConfigError(f"boards_dir {own}: there is no such folder")
    folders = [FOLDER] if own is None else [FOLDER, own]
    found = {path.stem: read_board(path) for folder in folders for path in folder.glob("*.toml")}
    return dict(sorted(found.items()))


def board(name: str, own: Path | None = None) -> Board:
    """The profile called `name`; `own` is a folder with the user's profiles."""
    return find(name, boards(own))


def find(name: str, known: Mapping[str, Board]) -> Board:
    """The profile called `name` of those that are known."""
    if name not in known:
        hint = did_you_mean(name, known) or f"; known: {' '.join(known)}"
        raise ConfigError(f"no board {name!r}{hint}")
    return known[name]


def board_of_model(model: str, arch: str) -> Board | None:
    """The profile of a board with this `model`; else the generic one of its architecture, if there is one."""
    found = [(len(start), b.name) for b in boards().values() for start in b.models if model.startswith(start)]
    name = max(found)[1] if found else f"generic-{arch}"  # the longest prefix is the most specific
    return boards().get(name)
