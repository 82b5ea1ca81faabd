"""Installs a kit on a running board over ssh; checked first, so that no revoked or damaged kit is sent."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from core.errors import ConfigError
from firmware_configs.flash.push import push_kit
from firmware_configs.kits.revoked import check_kit
from firmware_configs.kits.signed import open_kit
from firmware_configs.kits.wheels import kit_wheels

__all__ = ["PushedKit", "push_folder"]


@dataclass(frozen=True, slots=True)
class PushedKit:
    """A board that runs the kit of `device`, and its output."""

    device: str
    lines: tuple[str, ...]


def push_folder(
    folder: Path,
    host: str,
    *,
    key: str | None = None,
    family: str | None = None,
    seconds: int = 60,
    ssh: str = "ssh",
) -> PushedKit:
    """Install the kit at `folder` on the board at `host` (user@host), whose agent has `seconds` to report.

    `family` is the system that it runs, for a kit that has wheels for several: only those for it are sent. `ssh` is the
    program with its options, such as "ssh -p 2222". DeviceError if the board went back to what it had.
    """
    kit, signed = open_kit(folder, key)
    check_kit(kit, folder.resolve().parent)
    if family is not None and family not in kit.os:
        raise ConfigError(f"--os {family!r}: the kit of {kit.device} is for {' '.join(kit.os)}")
    wheels = kit_wheels(kit, folder.resolve().parent, None if family is None else [family])
    done = push_kit(kit, signed, host, wheels=wheels, seconds=seconds, ssh=shlex.split(ssh))
    return PushedKit(kit.device, done.lines)
