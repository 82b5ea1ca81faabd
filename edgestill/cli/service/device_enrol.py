"""`edgestill device approve`: enrols boards that have created their own keys."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import ConfigError
from edgestill.cli import completion
from edgestill.cli.output import out, print_json, print_table
from edgestill.cli.service.device_settings import Config, Json, say

if TYPE_CHECKING:
    from aggregator.config.fleet import FleetConfig
    from firmware_configs.use_cases.approve_boards import Decision

__all__ = ["approve"]


def approve(
    config: Config,
    device: Annotated[
        str | None,
        typer.Argument(
            metavar="DEVICE",
            help="Device id; without it, pending requests are listed.",
            autocompletion=completion.devices,
        ),
    ] = None,
    fingerprint: Annotated[
        str | None, typer.Option("--fingerprint", help="Fingerprint shown by the board; any other is refused.")
    ] = None,
    refuse: Annotated[bool, typer.Option("--refuse", help="Refuse the request and invalidate its claim.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help='Run until Ctrl-C and approve boards of groups with enrol = "claim".')
    ] = False,
    kits: Annotated[
        Path | None, typer.Option("--kits", help="The folder of `provision --out`; default [provision] out.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Certify a board that has created its own keys and presents the claim of its kit.

    Compare the fingerprint with the one in the board's log or in the output of `edgestill doctor` there. This command
    reads the key of the fleet's authority; the aggregator does not need it.
    Example:  edgestill device approve pi-01 --fingerprint "1f0c 77a2 93b1 0d4e 5a6b" --config fleet.toml
    """
    fleet = _fleet(config)
    if watch and (device is not None or refuse or fingerprint is not None):
        raise ConfigError("--watch approves all requests; remove DEVICE, --refuse and --fingerprint")
    if device is None and not watch:
        _list(fleet, as_json)
        return
    from firmware_configs.manifest import certificate_days
    from firmware_configs.use_cases.approve_boards import decide

    folder, days = _kits(kits, config), certificate_days(config)
    if device is not None:
        _print(decide(fleet, folder, device, days=days, fingerprint=fingerprint, refuse=refuse), as_json)
    else:
        _watch(fleet, folder, days, as_json)


def _fleet(config: Path) -> FleetConfig:
    from aggregator.config.fleet import load_fleet_config

    return load_fleet_config(config)


def _kits(given: Path | None, config: Path) -> Path:
    """The folder of the fleet's authority."""
    from firmware_configs.manifest import kits_folder

    folder = given or kits_folder(config)
    if folder is None:
        raise ConfigError(f"{config}: has no [[group]] of devices; give the folder of the kits with --kits")
    return folder


def _watch(fleet: FleetConfig, kits: Path, days: int, as_json: bool) -> None:
    from firmware_configs.use_cases.approve_boards import LOOK_S, approve_as_they_come

    def rest() -> None:
        out.file.flush()
        time.sleep(LOOK_S)

    for decision in approve_as_they_come(fleet, kits, days=days, report=say, rest=rest):
        _print(decision, as_json)


def _print(decision: Decision, as_json: bool) -> None:
    if as_json:
        print_json(decision.facts())
        return
    say(f"{decision.device} with fingerprint {decision.fingerprint}: {decision.answer}")
    if decision.revoked:
        say(f"{decision.revoked} former certificates revoked; on the broker: edgestill broker install")


def _list(fleet: FleetConfig, as_json: bool) -> None:
    from firmware_configs.use_cases.approve_boards import requests
    from wire.enrolment import shown

    rows = [
        {"device": name, "fingerprint": shown(entry["keys"]), "status": entry["status"], "asked": entry["asked"]}
        for name, entry in requests(fleet).items()
    ]
    if as_json:
        print_json(rows)
        return
    cells = [[*list(row.values())[:3], f"{datetime.fromtimestamp(row['asked']):%Y-%m-%d %H:%M}"] for row in rows]
    print_table("", ["device", "fingerprint", "status", "asked"], cells)
