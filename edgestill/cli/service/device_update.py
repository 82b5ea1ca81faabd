"""`edgestill device update`: brings another version of edgestill to boards that run."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.durations import span
from core.errors import ConfigError
from edgestill.cli import completion
from edgestill.cli.output import one_line, print_json, print_table
from edgestill.cli.service.device_settings import Config, Json, say

if TYPE_CHECKING:
    from firmware_configs.use_cases.update_boards import Offer

__all__ = ["seconds_of", "update"]

UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
DURATION = re.compile(r"([0-9]{1,9})(s|m|min|h|d)")


def update(
    config: Config,
    devices: Annotated[
        list[str] | None, typer.Argument(metavar="DEVICE", help="Device ids.", autocompletion=completion.devices)
    ] = None,
    to: Annotated[str | None, typer.Option("--to", help="The version, such as 0.3.0: that of this machine.")] = None,
    group: Annotated[list[str] | None, typer.Option("--group", help="All devices of a [[group]]; repeatable.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All devices.")] = False,
    wheel: Annotated[Path | None, typer.Option("--wheel", help="edgestill's wheel, of another version.")] = None,
    canary: Annotated[int, typer.Option("--canary", min=0, max=100_000, help="Offer it to that many first.")] = 0,
    wait: Annotated[str, typer.Option("--wait", help="After they have committed, such as 30min or 1h.")] = "0s",
    force: Annotated[bool, typer.Option("--force", help="Also an older version than a board has.")] = False,
    whole: Annotated[bool, typer.Option("--whole", help="Every wheel travels, also those of boards' kits.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would travel, and to whom.")] = False,
    status: Annotated[bool, typer.Option("--status", help="How far the last update is.")] = False,
    abort: Annotated[bool, typer.Option("--abort", help="Offer it no longer; what was begun ends by itself.")] = False,
    as_json: Json = False,
) -> None:
    """Bring this machine's version of edgestill to boards that run; each tries it, and goes back if it is not well.

    Example:  edgestill device update --to 0.3.0 --group pis --canary 2 --wait 1h --config fleet.toml

    Needs the kits and the authority's key of `edgestill provision`. docs/updates.md tells what happens on a board.
    """
    wait_s, chosen = seconds_of(wait), bool(devices or group or everything)
    if status + abort + (to is not None) != 1 or (chosen and to is None):
        raise ConfigError("give --to VERSION with devices, --group or --all; or --status, or --abort, alone")
    if to is not None:
        _offer(
            config,
            (devices or [], group or [], everything),
            dry_run=dry_run,
            as_json=as_json,
            to=to,
            wheel=wheel,
            canary=canary,
            wait_s=wait_s,
            force=force,
            whole=whole,
        )
    else:
        _last_update(config, abort=abort, as_json=as_json)


def _last_update(config: Path, *, abort: bool, as_json: bool) -> None:
    """Show how far the last update is, or end it."""
    from aggregator.config.fleet import load_fleet_config
    from firmware_configs.use_cases.update_boards import abort_update, update_status

    fleet = load_fleet_config(config)
    if abort:
        say(abort_update(fleet))
        return
    facts = update_status(fleet)
    if as_json:
        print_json(facts)
    else:
        _print_status(facts)


def seconds_of(text: str) -> float:
    """Seconds of 90s, 30min, 1h, 2d.

    >>> seconds_of("1h"), seconds_of("30min"), seconds_of("5m")
    (3600.0, 1800.0, 300.0)
    """
    found = DURATION.fullmatch(text)
    if found is None:
        raise ConfigError(f"--wait {text!r}: write a number with a unit, such as 30min or 1h")
    return float(found[1]) * UNITS[found[2]]


def _offer(config: Path, who: tuple[list[str], list[str], bool], *, dry_run: bool, as_json: bool, **asked: Any) -> None:
    from aggregator.config.fleet import load_fleet_config
    from firmware_configs.manifest import load_manifest
    from firmware_configs.use_cases.update_boards import Asked, choose, offer_update

    manifest, (names, groups, everything) = load_manifest(config), who
    devices = choose(manifest, names, groups, everything=everything)
    offer = offer_update(manifest, load_fleet_config(config), Asked(devices=devices, **asked), dry_run=dry_run)
    if as_json:
        print_json(offer.facts())
    else:
        _print_offer(offer, asked["wait_s"], dry_run)


def _print_offer(offer: Offer, wait_s: float, dry_run: bool) -> None:
    say(f"edgestill {offer.version}: a bundle of {offer.size / 1e6:.1f} MB with {len(offer.wheels)} wheels")
    first = f", first {' '.join(offer.canaries)}, the others {span(wait_s, 0)} later" if offer.canaries else ""
    say(f"{'would be ' * dry_run}offered to {len(offer.devices)} devices{first}")
    if not dry_run:
        say(f"{offer.answer}; `edgestill device update --status` says how far it is")


def _print_status(facts: dict[str, Any]) -> None:
    if not facts:
        say("no update was ever offered")
        return
    counts = Counter(row["stage"] for row in facts["devices"])
    told = ", ".join(f"{count} {stage}" for stage, count in counts.most_common())
    say(f"edgestill {facts['version']}, {facts['size'] / 1e6:.1f} MB: {told}")
    if facts["stopped"]:
        say(f"stopped: {one_line(facts['stopped'])}")
    columns = ["device", "stage", "version", "reason"]
    rows = [[row["id"], _stage(row), one_line(row["version"]), one_line(row["reason"])] for row in facts["devices"]]
    print_table("", columns, rows)


def _stage(row: dict[str, Any]) -> str:
    progress = "" if row["progress"] is None else f" {100 * row['progress']:.0f} %"
    return f"{row['stage']}{progress}{', canary' * row['canary']}"
