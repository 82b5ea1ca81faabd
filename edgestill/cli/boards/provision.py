"""`edgestill provision`: identities and kits of a whole fleet."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from edgestill.cli.boards.options import Json
from edgestill.cli.output import out, print_json

__all__ = ["provision"]

SAID = {
    "made": "made",
    "changed": "made again with the same keys, as the manifest says now",
    "renewed": "renewed",
    "kept": "as they were",
    "revoked": "revoked, and left as they are; `edgestill device revoke --undo`",
    "servers": "server certificates made",
    "unclaimed": "will make their own keys; then `edgestill device approve`",
    "ending": "certificates that end within 30 days, or claims that ended; --renew",
    "strangers": "kits of devices that are not in the manifest; `edgestill device revoke`",
}
SHOWN = 8


def provision(
    file: Annotated[Path, typer.Argument(metavar="FLEET", help="A fleet.toml with [[group]] tables.")],
    folder: Annotated[
        Path | None, typer.Option("--out", help="Where kits and identities go; default [provision] out, or kits/.")
    ] = None,
    renew: Annotated[
        list[str] | None,
        typer.Option("--renew", metavar="DEVICE", help="Give it a new certificate, or claim; repeatable."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a kit for every device of a fleet, and what the aggregator and the broker need.

    Run again, it makes what is new or has changed, and leaves the rest alone. Example:  edgestill provision fleet.toml
    """
    from firmware_configs.use_cases.provision_fleet import provision_fleet

    kits = provision_fleet(file, out=folder, renew=renew or [])
    if as_json:
        print_json(kits.facts())
        return
    for name, devices in asdict(kits.done).items():
        if devices:
            more = f" and {len(devices) - SHOWN} more" if len(devices) > SHOWN else ""
            _say(f"{SAID[name]}: {' '.join(devices[:SHOWN])}{more}")
    _say(f"kits: {kits.out}; signed by {kits.kit_key}")
    _say(f"broker: {kits.broker}; aggregator: {kits.aggregator}; keys_dir of [devices]: {kits.device_keys}")
    _say(f"keep {kits.authority} safe: whoever has it can make devices")


def _say(text: str) -> None:
    out.print(text, markup=False, soft_wrap=True)
