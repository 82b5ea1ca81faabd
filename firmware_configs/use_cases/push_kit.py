"""A kit to a running board, over ssh: checked here first, so that a revoked or damaged one never leaves."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from firmware_configs.flash.push import push_kit
from firmware_configs.kits.revoked import check_kit
from firmware_configs.kits.signed import open_kit

__all__ = ["PushedKit", "push_folder"]


@dataclass(frozen=True, slots=True)
class PushedKit:
    """A board that runs the kit of `device`, and what it said meanwhile."""

    device: str
    lines: tuple[str, ...]


def push_folder(folder: Path, host: str, *, key: str | None = None, seconds: int = 60, ssh: str = "ssh") -> PushedKit:
    """Install the kit at `folder` on the board at `host` (user@host), whose agent has `seconds` to report.

    `ssh` is the program with its options, such as "ssh -p 2222". DeviceError if the board went back to what it had.
    """
    kit, signed = open_kit(folder, key)
    check_kit(kit, folder.resolve().parent)
    return PushedKit(kit.device, push_kit(kit, signed, host, seconds=seconds, ssh=shlex.split(ssh)).lines)
