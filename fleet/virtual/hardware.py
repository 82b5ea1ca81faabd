"""The cost of one round on one board, in virtual seconds and joules.

    t = t_down + t_train + t_up = down / r_down + (t_start + F / S) + up / r_up
    E = P_radio (t_down + t_up) + P_train t_train + P_idle t_wait

with `down` and `up` in bits, rates r in bits per second, F floating-point operations, S the board's speed, t_start the
time that its training process takes to start and t_wait the time from its answer until the round is closed.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from core.config_keys import read_toml, sub_table
from core.errors import ConfigError, TopicError, did_you_mean
from core.limits import DEVICES
from core.settings import read
from firmware_configs.boards import boards
from firmware_configs.boards.hardware import Hardware
from wire.ids import check_id

__all__ = ["Hardware", "Trip", "Usage", "find_board", "known_hardware", "parse_boards", "usage", "waiting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trip:
    """The work of one round on one device."""

    down_bytes: int
    flops: float
    up_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The cost for a board; costs can be added."""

    seconds: float = 0.0
    train_seconds: float = 0.0
    joules: float = 0.0
    bytes_up: int = 0
    bytes_down: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            seconds=self.seconds + other.seconds,
            train_seconds=self.train_seconds + other.train_seconds,
            joules=self.joules + other.joules,
            bytes_up=self.bytes_up + other.bytes_up,
            bytes_down=self.bytes_down + other.bytes_down,
        )


def usage(hardware: Hardware, trip: Trip) -> Usage:
    """The cost of download, training and upload.

    >>> pi = Hardware(start_s=1, gflops=2, up_mbps=8, down_mbps=16, train_watts=5, radio_watts=3, idle_watts=1)
    >>> made = usage(pi, Trip(down_bytes=2_000_000, flops=10e9, up_bytes=1_000_000))
    >>> made.seconds, made.train_seconds, made.joules  # 1 + (1 + 5) + 1 s, and 3 * 2 + 5 * 6 J
    (8.0, 6.0, 36.0)
    """
    radio = 8e-6 * (trip.down_bytes / hardware.down_mbps + trip.up_bytes / hardware.up_mbps)
    train = hardware.start_s + trip.flops / (1e9 * hardware.gflops)
    return Usage(
        seconds=radio + train,
        train_seconds=train,
        joules=hardware.radio_watts * radio + hardware.train_watts * train,
        bytes_up=trip.up_bytes,
        bytes_down=trip.down_bytes,
    )


def waiting(hardware: Hardware, seconds: float) -> Usage:
    """Idle until the round is closed."""
    return Usage(joules=hardware.idle_watts * max(seconds, 0.0))


def known_hardware(path: Path | None = None) -> dict[str, Hardware]:
    """Hardware by board, from the profiles of boards.

    The file at `path` has one table per board and overrides them; a folder has profiles of the user's own.
    """
    if path is not None and path.is_dir():
        if not any(path.glob("*.toml")):
            raise ConfigError(f"{path}: a folder without board profiles; they are files such as rock-5.toml")
        return _of_profiles(path)
    return {**_of_profiles(), **(_read(path) if path else {})}


@functools.cache
def _of_profiles(own: Path | None = None) -> dict[str, Hardware]:
    return {name: board.hardware for name, board in boards(own).items() if board.hardware is not None}


def _read(path: Path) -> dict[str, Hardware]:
    tables, profiles = read_toml(path), {}
    for name in tables:
        where = f"{path.name} [{name}]"
        profiles[_own_name(name, where)] = read(Hardware, sub_table(tables, name, where), where)
    return profiles


def _own_name(name: str, where: str) -> str:
    """The board of a table in a user's file: one that has a profile, or a new one."""
    try:
        return find_board(name)
    except ConfigError:
        pass
    try:
        check_id(name, "board")
    except TopicError as error:
        raise ConfigError(f"{where}: {error}") from None
    return name


def find_board(text: str, known: Collection[str] = ()) -> str:
    """The board named by `text`; hyphens and an unambiguous ending may be omitted: rpi4, rpi-zero2w, jetson-orin.

    `known` are the boards of a user's file; by default, those that have a profile.
    """
    names = list(known or _of_profiles())
    plain: Mapping[str, str] = {name.replace("-", ""): name for name in names}
    wanted = text.replace("-", "").lower()
    if wanted in plain:
        return plain[wanted]
    starts = [name for short, name in plain.items() if short.startswith(wanted)] if wanted else []
    shortest = min(starts, key=len, default="")
    if starts and all(name.startswith(shortest) for name in starts):  # the others are variants of it
        return shortest
    hint = f"; did you mean {' or '.join(starts)}?" if starts else did_you_mean(text, names)
    raise ConfigError(f"no board {text!r}{hint or '; known: ' + ' '.join(names)}")


def parse_boards(text: str, known: Collection[str] = ()) -> tuple[str, ...]:
    """The board of every device, parsed from `rpi4:10,rpi-zero2w:5`; a board without a count is one device."""
    devices: list[str] = []
    for order in text.split(","):
        name, colon, count = order.strip().partition(":")
        if colon and not (count.isdecimal() and len(count) < 10 and int(count)):
            raise ConfigError(f"--devices {order.strip()[:80]!r}: give BOARD:COUNT, such as rpi4:10")
        try:
            DEVICES.check(len(devices) + (int(count) if colon else 1), "--devices: altogether")
            devices += [find_board(name, known)] * (int(count) if colon else 1)
        except ConfigError as error:
            raise ConfigError(f"--devices: {str(error).removeprefix('--devices: ')}") from None
    return tuple(devices)
