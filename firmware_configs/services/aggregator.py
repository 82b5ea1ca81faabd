"""Installs the aggregator of a fleet.toml as a service of systemd, and takes it away again.

    DIR/etc/systemd/system/edgestill-aggregator-FLEET.service

Each fleet has a unit of its own, so several aggregators run side by side on a machine: their state folders, and the
ports of their metrics and pages, are those of their fleet.toml. Everything is checked before the unit is written: that
the user of the service can read what the file names, and that no other fleet.toml has the unit.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from aggregator.config.fleet import FleetConfig, load_fleet_config
from aggregator.monitoring.tracked_rounds import fleet_trackers
from core.errors import ConfigError
from firmware_configs.services.aggregator_unit import VAR_LIB, aggregator_unit, unit_name
from firmware_configs.services.readable import Account, find_account
from firmware_configs.services.systemd import Systemd

__all__ = ["Installed", "install_aggregator", "uninstall_aggregator"]

LONGEST_UNIT = 2**20
ACCELERATORS = tuple(map(Path, ("/dev/nvidiactl", "/dev/nvhost-gpu", "/dev/kfd")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What was done, and what is to be done next."""

    unit: Path
    user: str = ""
    text: str = ""  # of the unit
    changed: bool = True
    said: list[str] = field(default_factory=list)


def install_aggregator(
    config: Path, *, user: str | None = None, root: Path = Path("/"), dry_run: bool = False
) -> Installed:
    """Write the unit of the fleet; `user` is by default the owner of the aggregator's key."""
    fleet = load_fleet_config(config)
    name, systemd, path = unit_name(fleet.fleet), Systemd.below(root), config.resolve()
    account = _account(fleet, user)
    needed = _files(fleet)
    for file in (path, *needed):
        _check_readable(file, account)
    state = fleet.state.resolve()
    text = aggregator_unit(
        fleet.fleet,
        program=_program(),
        config=path,
        state=state,
        reads=[*needed, state],
        writes=[Path(t.where) for t in fleet_trackers(fleet) if t.kind == "tensorboard"],
        user=account.name,
        group=account.group,
        accelerator=_uses_accelerator(fleet),
    )
    _check_free(systemd.path(name), path)
    unit = systemd.path(name)
    if dry_run:
        return Installed(unit=unit, user=account.name, text=text, changed=False, said=[f"would write {unit}"])
    known = unit.is_file()
    _make_folders(fleet, account)
    systemd.write(name, text)
    service = name.removesuffix(".service")
    verb = "restart" if known else "enable --now"
    next_step = f"sudo systemctl {verb} {service}"
    said = [f"wrote {unit}: fleet {fleet.fleet} as user {account.name}"]
    said.append(f"{'restart it' if known else 'start it, now and at every boot'}: {next_step}")
    said.append(f"its log: journalctl -u {service}")
    return Installed(unit=unit, user=account.name, text=text, said=said)


def uninstall_aggregator(config: Path, *, root: Path = Path("/"), dry_run: bool = False) -> Installed:
    """Stop the service of the fleet and remove its unit; state, keys and models stay."""
    fleet = load_fleet_config(config)
    name, systemd = unit_name(fleet.fleet), Systemd.below(root)
    unit = systemd.path(name)
    if not unit.is_file():
        raise ConfigError(f"there is no {unit}; fleet {fleet.fleet} is not installed as a service")
    _check_free(unit, config.resolve())
    if dry_run:
        return Installed(unit=unit, changed=False, said=[f"would remove {unit}"])
    systemd.remove(name)
    kept = f"{fleet.state} stays, with journal and models; delete it if the fleet is not needed any more"
    return Installed(unit=unit, said=[f"removed {unit}", kept])


def _account(fleet: FleetConfig, user: str | None) -> Account:
    """The user that the service runs as."""
    if user is not None:
        return find_account(user)
    try:
        owner = fleet.key.stat().st_uid
    except OSError as error:
        raise ConfigError(
            f"{fleet.key}: {error.strerror}; run `edgestill provision`, or `edgestill keys new`"
        ) from None
    if owner == 0:
        raise ConfigError(f"{fleet.key} is root's; give --user NAME, who can read it: a service needs no root")
    return find_account(owner)


def _files(fleet: FleetConfig) -> list[Path]:
    """What the service reads besides its fleet.toml and its state folder."""
    tls, monitor, fusion = fleet.broker.tls, fleet.monitor, fleet.fusion
    named = [fleet.key, fleet.task.validation, monitor.web_cert, monitor.web_key, *fusion.teachers]
    named += [] if tls is None else [tls.ca, tls.cert, tls.key]
    named += [Path(path) for path in (fusion.source, fusion.validation) if Path(path).is_absolute()]
    return [path.resolve() for path in named if path is not None]


def _uses_accelerator(fleet: FleetConfig) -> bool:
    """Whether fusion may use one: then the service sees the devices of the machine."""
    device = fleet.fusion.device
    return any(map(Path.exists, ACCELERATORS)) if device == "auto" else device != "cpu"


def _check_readable(path: Path, account: Account) -> None:
    try:
        readable = account.may_read(path)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; the fleet.toml names it") from None
    if not readable:
        raise ConfigError(f"{path}: user {account.name} cannot read it; give it to that user, or another --user")


def _check_free(unit: Path, config: Path) -> None:
    """Refuse the unit of another fleet.toml."""
    try:
        lines = unit.read_text()[:LONGEST_UNIT].splitlines()
    except OSError:
        return
    command = next((line for line in lines if line.startswith("ExecStart=")), "")
    theirs = command.partition("--config ")[2].strip('"').replace("%%", "%").replace("$$", "$")
    if theirs != str(config):
        whose = theirs or "something else"
        raise ConfigError(f"{unit} is that of {whose}; uninstall it first, or give another [fleet] id")


def _program() -> Path:
    """The command of this installation."""
    beside = Path(sys.executable).with_name("edgestill")
    found = beside if beside.is_file() else shutil.which("edgestill")
    if not found:
        raise ConfigError(f"there is no command edgestill beside {sys.executable}; pip install edgestill there")
    return Path(found).absolute()


def _make_folders(fleet: FleetConfig, account: Account) -> None:
    """The folders that systemd does not make: they have to be there before the service starts."""
    trackers = [Path(t.where) for t in fleet_trackers(fleet) if t.kind == "tensorboard"]
    for folder in (fleet.state.resolve(), *trackers):
        if folder.is_relative_to(VAR_LIB) and folder == fleet.state.resolve():
            continue
        try:
            new = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if new and os.geteuid() == 0:
                shutil.chown(folder, account.name, account.group)
        except OSError as error:
            raise ConfigError(f"{folder}: {error.strerror}; make it, owned by {account.name}") from None
