"""`edgestill device`: lists, shows and revokes the devices of a fleet."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgestill.cli.output import one_line, out, print_json, print_table
from edgestill.cli.service.device_enrol import approve
from edgestill.cli.service.device_log import show_log
from edgestill.cli.service.device_settings import Config, Json, Name, check_known, say, set_settings
from edgestill.cli.service.status import device_table, installing_lines, problem_lines, sample_lines

if TYPE_CHECKING:
    from aggregator.config.fleet import FleetConfig

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Devices of a fleet: list, change settings, approve, revoke.")

app.command("set")(set_settings)
app.command("log")(show_log)
app.command()(approve)


@app.command("list")
def list_devices(config: Config, as_json: Json = False) -> None:
    """List all devices, including configured ones that have never connected."""
    from aggregator.config.fleet import load_fleet_config

    facts = _facts(load_fleet_config(config))
    if as_json:
        print_json(facts)
        return
    columns, rows = device_table(facts)
    settings = any(device["settings"] for device in facts)  # the table is already wide
    if settings:
        columns, rows = [*columns, "settings"], [[*r, d["settings"]] for r, d in zip(rows, facts, strict=True)]
    print_table("", columns, rows)
    for line in (*installing_lines(facts), *problem_lines(facts), *sample_lines(facts)):
        say(line)


@app.command()
def show(device: Name, config: Config, as_json: Json = False) -> None:
    """Show one device: its status, and its desired and reported settings."""
    from aggregator.config.fleet import load_fleet_config

    loaded = load_fleet_config(config)
    check_known(device, loaded, config)
    (facts,) = [row for row in _facts(loaded) if row["id"] == device]
    if as_json:
        print_json(facts)
        return
    for name, value in facts.items():
        if isinstance(value, dict):
            for key, inner in value.items():
                _line(f"{name}.{key}", inner)
        else:
            _line(name, value)


def _facts(loaded: FleetConfig) -> list[dict[str, Any]]:
    """The known properties of every device."""
    from aggregator.downlink.device_settings import settings_facts
    from aggregator.failed_installs import failed_installs
    from aggregator.monitoring.telemetry import read_telemetry
    from aggregator.status import device_facts, device_problems, last_report, limited_devices
    from aggregator.storage.journal import Journal
    from aggregator.storage.rows import DeviceRow

    rows = {name: DeviceRow(id=name) for name in loaded.devices}
    if not (loaded.state / "journal.db").is_file():
        empty: dict[str, Any] = {"telemetry": {}, "desired": None, "reported": None, "settings": ""}
        return [{**device_facts(rows[name]), **empty} for name in sorted(rows)]
    journal = Journal(loaded.state / "journal.db", read_only=True)
    try:
        rows |= {row.id: row for row in journal.devices()}
        known = last_report(journal).get("devices", {}), limited_devices(loaded.state), journal.newest_metrics()
        why = device_problems(journal), failed_installs(journal)
        telemetry = read_telemetry(loaded.state, time.time())
        return [
            {
                **device_facts(rows[name], *known, *why),
                "telemetry": telemetry.get(name, {}),
                **settings_facts(journal, name),
            }
            for name in sorted(rows)
        ]
    finally:
        journal.close()


def _line(name: str, value: object) -> None:
    say(f"{name:22s} {'' if value is None else one_line(value)}".rstrip())


@app.command()
def revoke(
    device: Name,
    config: Config,
    undo: Annotated[bool, typer.Option("--undo", help="Let the device take part again.")] = False,
    kits: Annotated[
        Path | None, typer.Option("--kits", help="The folder of `provision --out`; default [provision] out.")
    ] = None,
) -> None:
    """Revoke a device: it gets no jobs, and its updates are not used, also in the open round.

    In a fleet created by `edgestill provision`, its certificate is revoked too, so that the broker rejects it, and so
    is the claim of a board that is not enrolled yet.
    """
    from aggregator.config.fleet import load_fleet_config
    from aggregator.operator_client import ask_service
    from firmware_configs.manifest import kits_folder
    from firmware_configs.provision import authority_folder
    from firmware_configs.use_cases.revoke_device import has_claim

    loaded = load_fleet_config(config)
    folder = kits or kits_folder(config)
    if folder is None or not authority_folder(folder).exists():
        folder = None
    if folder is None or not has_claim(folder, loaded.fleet, device):
        check_known(device, loaded, config)
    out.print(ask_service(loaded, "allow" if undo else "revoke", device), markup=False, soft_wrap=True)
    if folder is not None:
        _certificates(folder, loaded.fleet, device, undo, config)


def _certificates(kits: Path, fleet: str, device: str, undo: bool, config: Path) -> None:
    from firmware_configs.use_cases.revoke_device import readmit, revoke_certificates

    if undo:
        readmit(kits, fleet, device)
        text = f"a revoked certificate stays revoked: edgestill provision {config} --renew {device}"
    else:
        done = revoke_certificates(kits, fleet, device)
        text = f"{done.count} certificates revoked; on the broker: edgestill broker install --from {done.crl.parent}"
    out.print(text, markup=False, soft_wrap=True)
