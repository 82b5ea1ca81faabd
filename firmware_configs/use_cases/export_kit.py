"""A kit as one folder with its wheels, to be copied to a board by any means, where its install.sh is run."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from core.errors import ConfigError
from firmware_configs.kits.kit import KitFile
from firmware_configs.kits.revoked import check_kit
from firmware_configs.kits.signed import open_kit
from firmware_configs.kits.wheels import kit_wheels

__all__ = ["ExportedKit", "export_kit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedKit:
    """A folder with a kit."""

    device: str
    folder: Path
    wheels: int
    bytes: int  # of everything in it


def export_kit(folder: Path, to: Path, *, key: str | None = None, family: str | None = None) -> ExportedKit:
    """Write the kit at `folder`, checked, with its wheels to the new folder `to`; `family`: only wheels for that."""
    kit, signed = open_kit(folder, key)
    kits = folder.resolve().parent
    check_kit(kit, kits)
    if family is not None and family not in kit.os:
        raise ConfigError(f"--os {family!r}: the kit of {kit.device} is for {' '.join(kit.os)}")
    wheels = kit_wheels(kit, kits, None if family is None else [family])
    if os.path.lexists(to):
        raise ConfigError(f"{to}: is there already; give the name of a new folder")
    to.mkdir(parents=True, mode=0o700)  # it has keys
    for name, file in {**kit.payload(), **{name: KitFile(data) for name, data in signed.items()}}.items():
        _put(to / name, file)
    (to / "wheels").mkdir()
    for name, path in wheels.items():
        shutil.copyfile(path, to / "wheels" / name)
    size = sum(path.stat().st_size for path in to.rglob("*") if path.is_file())
    return ExportedKit(device=kit.device, folder=to, wheels=len(wheels), bytes=size)


def _put(path: Path, file: KitFile) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, file.mode)
    with os.fdopen(handle, "wb") as out:
        os.fchmod(handle, file.mode)
        out.write(file.data)
