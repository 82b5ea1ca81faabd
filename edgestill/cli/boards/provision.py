"""`edgestill provision`: creates the identities and kits of a fleet."""

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
    "changed": "rebuilt for the changed manifest, with the same keys",
    "renewed": "renewed",
    "kept": "unchanged",
    "revoked": "revoked, not changed; see `edgestill device revoke --undo`",
    "servers": "server certificates created",
    "unclaimed": "will create their own keys; then run `edgestill device approve`",
    "ending": "certificates that expire within 30 days, or expired claims; use --renew",
    "strangers": "kits of devices that are not in the manifest; see `edgestill device revoke`",
}
SHOWN = 8


def provision(
    file: Annotated[Path, typer.Argument(metavar="FLEET", help="A fleet.toml with [[group]] tables.")],
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Output folder of kits and identities; default [provision] out, or kits/."),
    ] = None,
    renew: Annotated[
        list[str] | None,
        typer.Option("--renew", metavar="DEVICE", help="Issue a new certificate or claim for this device; repeatable."),
    ] = None,
    wheels: Annotated[
        str | None,
        typer.Option(
            "--wheels",
            metavar="card|fleet|network|none",
            help="Wheels go with cards; boards fetch them from `kit serve`, or pip's index; or have them. Default"
            " [provision] wheels, or card.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a kit for every device of a fleet, and the files of the aggregator and the broker.

    Wheels for boards are fetched by pip into kits/_wheels, once for all kits. Run again, it creates only what is new
    or changed. Example:  edgestill provision fleet.toml
    """
    from firmware_configs.use_cases.provision_fleet import provision_fleet

    kits = provision_fleet(file, out=folder, renew=renew or [], wheels=wheels)
    if as_json:
        print_json(kits.facts())
        return
    for name, devices in asdict(kits.done).items():
        if devices:
            more = f" and {len(devices) - SHOWN} more" if len(devices) > SHOWN else ""
            _say(f"{SAID[name]}: {' '.join(devices[:SHOWN])}{more}")
    _say(f"kits: {kits.out}; signed by {kits.kit_key}")
    _say(f"broker: {kits.broker}; aggregator: {kits.aggregator}; keys_dir of [devices]: {kits.device_keys}")
    _say(f"keep {kits.authority} safe: its owner can create devices")


def _say(text: str) -> None:
    out.print(text, markup=False, soft_wrap=True)
