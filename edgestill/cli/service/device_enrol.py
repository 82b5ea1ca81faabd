"""`edgestill device approve`: boards that have made their own keys become devices of the fleet."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import ConfigError, EdgestillError
from edgestill.cli.output import out, print_json, print_table
from edgestill.cli.service.aggregator import ask_service
from edgestill.cli.service.device_settings import Config, Json, say

if TYPE_CHECKING:
    from aggregator.config.fleet import FleetConfig

__all__ = ["approve"]

LOOK_S = 1.0


def approve(
    config: Config,
    device: Annotated[
        str | None, typer.Argument(metavar="DEVICE", help="Which device; without one, those that ask are listed.")
    ] = None,
    fingerprint: Annotated[
        str | None, typer.Option("--fingerprint", help="As the board shows it; refuse to approve any other.")
    ] = None,
    refuse: Annotated[bool, typer.Option("--refuse", help="Turn it down: its claim is then worth nothing.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help='Go on until Ctrl-C: approve boards of groups with enrol = "claim".')
    ] = False,
    kits: Annotated[
        Path | None, typer.Option("--kits", help="The folder of `provision --out`; default [provision] out.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Certify a board that has made its own keys and asks with the claim of its kit.

    Compare the fingerprint with the one in the board's log, or that `edgestill doctor` shows there. This command reads
    the key of the fleet's authority; the aggregator does not need it.
    Example:  edgestill device approve pi-01 --fingerprint "1f0c 77a2 93b1 0d4e 5a6b" --config fleet.toml
    """
    from aggregator.config.fleet import load_fleet_config
    from firmware_configs.manifest import certificate_days, kits_folder

    loaded = load_fleet_config(config)
    if watch and (device is not None or refuse or fingerprint is not None):
        raise ConfigError("--watch approves what comes; leave out DEVICE, --refuse and --fingerprint")
    if device is None and not watch:
        _list(loaded, as_json)
        return
    folder = kits or kits_folder(config)
    if folder is None:
        raise ConfigError(f"{config}: has no [[group]] of devices; give the folder of the kits with --kits")
    days = certificate_days(config)
    if device is not None:
        print_or_say(_decide(loaded, folder, days, device, fingerprint, refuse), as_json)
        return
    for facts in _watch(loaded, folder, days):
        print_or_say(facts, as_json)


def print_or_say(facts: dict[str, Any], as_json: bool) -> None:
    """One decision."""
    if as_json:
        print_json(facts)
        return
    say(f"{facts['device']} with fingerprint {facts['fingerprint']}: {facts['answer']}")
    if facts["revoked"]:
        say(f"{facts['revoked']} former certificates revoked; on the broker: edgestill broker install")


def _requests(loaded: FleetConfig) -> dict[str, dict[str, Any]]:
    from aggregator.downlink.enrolment import enrol_requests
    from aggregator.storage.journal import Journal

    with closing(Journal(loaded.state / "journal.db", read_only=True)) as journal:
        return enrol_requests(journal)


def _list(loaded: FleetConfig, as_json: bool) -> None:
    from wire.enrolment import shown

    found = [
        {"device": name, "fingerprint": shown(entry["keys"]), "status": entry["status"], "asked": entry["asked"]}
        for name, entry in _requests(loaded).items()
    ]
    if as_json:
        print_json(found)
        return
    rows = [[*list(f.values())[:3], f"{datetime.fromtimestamp(f['asked']):%Y-%m-%d %H:%M}"] for f in found]
    print_table("", ["device", "fingerprint", "status", "asked"], rows)


def _decide(
    loaded: FleetConfig, kits: Path, days: int, device: str, fingerprint: str | None, refuse: bool
) -> dict[str, Any]:
    from aggregator.downlink.enrolment import ENROL
    from firmware_configs.approve import approve as certify
    from wire.enrolment import shown

    entry = _requests(loaded).get(device)
    if entry is None:
        raise ConfigError(f"{device!r} has not asked; `edgestill device approve` lists who has")
    revoked = 0
    if refuse:
        order = {"device": device, "keys": entry["keys"], "reason": "the operator has refused it"}
    else:
        done = certify(device, entry, kits=kits, fleet=loaded.fleet, days=days, fingerprint=fingerprint)
        order = {"device": device, "keys": done.keys, "certificate": base64.b64encode(done.certificate).decode()}
        revoked = done.revoked
    answer = ask_service(loaded, ENROL, json.dumps(order))
    return {"device": device, "fingerprint": shown(entry["keys"]), "answer": answer, "revoked": revoked}


def _watch(loaded: FleetConfig, kits: Path, days: int) -> Iterator[dict[str, Any]]:
    """Approve as they come those whose claim is enough; what cannot be approved is told once."""
    from firmware_configs.approve import claims

    passed: set[str] = set()
    while True:
        try:
            asked = _requests(loaded)
        except ConfigError:  # the aggregator has not been started yet
            asked = {}
        waiting = {d: e for d, e in asked.items() if e["status"] == "waiting" and e["keys"] not in passed}
        modes = claims(kits, loaded.fleet) if waiting else {}
        for device, entry in waiting.items():
            passed.add(entry["keys"])
            if modes.get(entry["claim"]) != "claim":
                say(f"{device}: waits for `edgestill device approve {device}`")
                continue
            try:
                yield _decide(loaded, kits, days, device, None, False)
            except EdgestillError as error:
                say(f"{device}: {error}")
        out.file.flush()
        time.sleep(LOOK_S)
