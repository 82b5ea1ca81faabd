"""`edgestill device set`: changes settings of running devices."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import ConfigError, DeviceError, did_you_mean
from edgestill.cli import completion
from edgestill.cli.output import one_line, out, print_json

if TYPE_CHECKING:
    from aggregator.config.fleet import FleetConfig

__all__ = ["Config", "Json", "Name", "check_known", "say", "set_settings"]

Config = Annotated[Path, typer.Option("--config", "-c", help="The fleet.toml.")]
Name = Annotated[str, typer.Argument(metavar="DEVICE", help="Device id.", autocompletion=completion.devices)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Wait = Annotated[float, typer.Option("--wait", min=0, max=86400, help="Seconds to wait for the device's report.")]


def set_settings(
    device: Name,
    config: Config,
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE", help="A setting, such as train.threads=2; docs/provisioning.md lists the keys."
        ),
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="KEY", help="Return to the value in agent.toml; repeatable.")
    ] = None,
    wait: Wait = 10.0,
    as_json: Json = False,
) -> None:
    """Change settings of a running device; it reports the result, and rolls back if it cannot train with them.

    Example:  edgestill device set pi-01 train.threads=2 log.level=debug --config fleet.toml

    Exit code 7 if the device has refused a setting or rolled back.
    """
    from aggregator.config.fleet import load_fleet_config
    from aggregator.downlink.device_settings import SET, ask_for
    from aggregator.operator_client import ask_service
    from aggregator.status import is_running

    loaded = load_fleet_config(config)
    check_known(device, loaded, config)
    changes = _changes(settings or [], unset or [])
    answer = ask_service(loaded, SET, ask_for(device, changes))
    if not answer.isdecimal() or not is_running(loaded.state):
        out.print(answer, markup=False, soft_wrap=True)
        return
    facts = _wait_for_report(loaded, device, int(answer), wait)
    if as_json:
        print_json(facts)
    else:
        _tell_settings(device, facts)
    if facts["settings"] not in ("applied", "not reported"):
        reported = facts["reported"]
        raise DeviceError(f"{device}: {'; '.join(filter(None, (*reported['refused'].values(), reported['reason'])))}")


def _changes(settings: list[str], unset: list[str]) -> dict[str, str | None]:
    """The requested changes, checked as far as possible without the device."""
    from edge_agent.remote_settings.allowed import check_setting

    changes: dict[str, str | None] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"{text!r}: write KEY=VALUE, such as train.threads=2")
        check_setting(name.strip(), value.strip())
        changes[name.strip()] = value.strip()
    changes |= dict.fromkeys(unset)
    if not changes:
        raise ConfigError("no setting given; write: edgestill device set DEVICE KEY=VALUE, or --unset KEY")
    return changes


def _wait_for_report(loaded: FleetConfig, device: str, version: int, seconds: float) -> dict[str, Any]:
    from aggregator.downlink.device_settings import settings_facts
    from aggregator.storage.journal import Journal

    journal = Journal(loaded.state / "journal.db", read_only=True)
    until = time.monotonic() + seconds
    try:
        while True:
            facts = settings_facts(journal, device)
            if facts["settings"] != "not reported" or time.monotonic() >= until:
                return {"version": version, **facts}
            time.sleep(0.05)
    finally:
        journal.close()


def _tell_settings(device: str, facts: dict[str, Any]) -> None:
    reported = facts["reported"] or {}
    settings = one_line(" ".join(f"{name}={value}" for name, value in reported.get("settings", {}).items()))
    if facts["settings"] == "not reported":
        say(f"{device} has not answered yet; check later with `edgestill device show {device}`")
    else:
        say(f"{device} has settings {facts['version']}: {settings or 'as its agent.toml says'}")


def check_known(device: str, loaded: FleetConfig, config: Path) -> None:
    """Raise for a device that is not in the fleet."""
    if device not in loaded.devices:
        hint = did_you_mean(device, loaded.devices) or "; see `edgestill device list`"
        raise ConfigError(f"no device {device!r} in {config}{hint}")


def say(text: str) -> None:
    """Print a line without markup."""
    out.print(text, markup=False, soft_wrap=True, highlight=False)
