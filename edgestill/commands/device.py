"""`edgestill device`: who is in the fleet, and who is no longer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgestill.commands.aggregator import ask_service
from edgestill.commands.status import DEVICE_COLUMNS, device_row
from edgestill.output import out, print_json, print_table
from wire.errors import ConfigError, did_you_mean

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Devices of a fleet: list them, revoke one.")

Config = Annotated[Path, typer.Option("--config", "-c", help="The fleet.toml.")]


@app.command("list")
def list_devices(config: Config, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the devices, those of the config that were never heard of included."""
    from aggregator.config import load_fleet_config
    from aggregator.journal import Journal
    from aggregator.rows import DeviceRow
    from aggregator.status import device_facts, last_report

    loaded = load_fleet_config(config)
    rows = {name: DeviceRow(id=name) for name in loaded.devices}
    fused = {}
    if (loaded.state / "journal.db").is_file():
        journal = Journal(loaded.state / "journal.db", read_only=True)
        rows |= {row.id: row for row in journal.devices()}
        fused = last_report(journal).get("devices", {})
        journal.close()
    facts = [device_facts(rows[name], fused) for name in sorted(rows)]
    if as_json:
        print_json(facts)
        return
    print_table("", list(DEVICE_COLUMNS), [device_row(device) for device in facts])


@app.command()
def revoke(
    device: Annotated[str, typer.Argument(help="Which device.")],
    config: Config,
    undo: Annotated[bool, typer.Option("--undo", help="Let it take part again.")] = False,
    kits: Annotated[
        Path | None, typer.Option("--kits", help="The folder of `provision --out`; default [provision] out.")
    ] = None,
) -> None:
    """Put a device out of the fleet: it gets no jobs, and what it sends, also in the open round, is not used.

    In a fleet made by `edgestill provision` its certificate is revoked too, for the broker to refuse it.
    """
    from aggregator.config import load_fleet_config
    from firmware_configs.manifest import kits_folder
    from firmware_configs.provision import authority_folder

    loaded = load_fleet_config(config)
    if device not in loaded.devices:
        hint = did_you_mean(device, loaded.devices) or "; see `edgestill device list`"
        raise ConfigError(f"no device {device!r} in {config}{hint}")
    out.print(ask_service(loaded, "allow" if undo else "revoke", device), markup=False, soft_wrap=True)
    folder = kits or kits_folder(config)
    if folder is not None and authority_folder(folder).exists():
        _certificates(folder, loaded.fleet, device, undo, config)


def _certificates(kits: Path, fleet: str, device: str, undo: bool, config: Path) -> None:
    from firmware_configs.ca import open_authority
    from firmware_configs.provision import authority_folder, publish_revocations

    if undo:
        text = f"a revoked certificate stays revoked: edgestill provision {config} --renew {device}"
    else:
        with open_authority(authority_folder(kits), fleet) as authority:
            count = len(authority.revoke(device))
            authority.save()
            path = publish_revocations(kits, authority)
        text = f"{count} certificates revoked; copy {path} to the broker and reload it"
    out.print(text, markup=False, soft_wrap=True)
