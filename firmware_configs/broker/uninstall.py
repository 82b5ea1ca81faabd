"""Takes the broker of a fleet away from this machine: its service, or its part of Debian's Mosquitto."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from core.errors import ConfigError
from firmware_configs.services.systemd import Systemd
from wire.topics import ROOT, VERSION

__all__ = ["uninstall_broker"]

MOST = 2**20  # characters of an access list


def uninstall_broker(fleet: str, *, to: Path, systemd: Systemd, dry_run: bool = False) -> list[str]:
    """Remove what `edgestill broker install` has made for the fleet; returns what was done and what is to be done."""
    own = to / f"edgestill-{fleet}"
    unit = f"edgestill-broker-{fleet}.service"
    if own.is_symlink():
        link, conf, service = own, to / f"edgestill-{fleet}.conf", systemd.path(unit).is_file()
    elif _fleet_of(to / "edgestill") == fleet:
        link, conf, service = to / "edgestill", to / "conf.d" / "edgestill.conf", False
    else:
        raise ConfigError(f"{to} has no broker of fleet {fleet}; give --to, or the fleet.toml that was installed")
    named = [*([systemd.path(unit)] if service else []), conf, link]
    if dry_run:
        return [f"would remove {path}" for path in named]
    if service:
        systemd.remove(unit)
    try:
        _remove(link, conf)
    except OSError as error:
        hint = "; run this as root: sudo" if isinstance(error, PermissionError) else ""
        raise ConfigError(f"{error.filename}: {error.strerror}{hint}") from None
    last = [] if own == link else ["restart Mosquitto: sudo systemctl restart mosquitto"]
    return [*(f"removed {path}" for path in named), *last]


def _remove(link: Path, conf: Path) -> None:
    """The configuration first: Mosquitto does not start with one whose files are gone."""
    conf.unlink(missing_ok=True)
    target = link.readlink() if link.is_symlink() else None
    if target is None:
        shutil.rmtree(link)
        return
    link.unlink()
    if target.parent == Path() and target.name.startswith(".edgestill-"):
        shutil.rmtree(link.parent / target, ignore_errors=True)


def _fleet_of(folder: Path) -> str:
    """The fleet of an access list; empty if there is none."""
    try:
        text = (folder / "acl").read_text(errors="replace")[:MOST]
    except OSError:
        return ""
    found = re.search(rf"^topic readwrite {ROOT}/{VERSION}/([^/]+)/", text, re.MULTILINE)
    return "" if found is None else found[1]
