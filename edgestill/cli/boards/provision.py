"""`edgestill provision`: identities and kits of a whole fleet."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a kit for every device of a fleet, and what the aggregator and the broker need.

    Run again, it makes what is new or has changed, and leaves the rest alone. Example:  edgestill provision fleet.toml
    """
    from firmware_configs.manifest import load_manifest
    from firmware_configs.provision import FLEET, KIT_PUB
    from firmware_configs.provision import provision as run
    from wire.keys import load_public_key, public_key_hex

    manifest = load_manifest(file, out=folder)
    done = asdict(run(manifest, renew=renew or []))
    key = public_key_hex(load_public_key(manifest.out / KIT_PUB))
    if as_json:
        print_json({"out": str(manifest.out), "kit_key": key, **done})
        return
    for name, devices in done.items():
        if devices:
            more = f" and {len(devices) - SHOWN} more" if len(devices) > SHOWN else ""
            _say(f"{SAID[name]}: {' '.join(devices[:SHOWN])}{more}")
    own = manifest.out / FLEET
    _say(f"kits: {manifest.out}; signed by {key}")
    _say(f"broker: {own / 'broker'}; aggregator: {own / 'aggregator'}; keys_dir of [devices]: {own / 'devices'}")
    _say(f"keep {own / 'authority'} safe: whoever has it can make devices")


def _say(text: str) -> None:
    out.print(text, markup=False, soft_wrap=True)
