"""What an operator has to look at now, in sentences; docs/operate-reference.md says what to do about each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aggregator.config.fleet import FleetConfig
from aggregator.monitoring.certificates import certificate_ends
from core.durations import coarse

__all__ = ["ALARMS", "alarms", "strained"]

#: Every alarm. One about many devices names the first; one about a device is told of the first few.
ALARMS: Mapping[str, str] = {
    "stopped": "The aggregator is not running; this is the state in its journal.",
    "broker": "The aggregator has no connection to its broker.",
    "stuck": "Round {number} cannot be fused: {reason}",
    "abandoned": "Round {number} was abandoned: {reason}",
    "disk": "The disk of the state folder is almost full: {free} MB free.",
    "certificate": "The certificate {name} ends in {left}.",
    "enrolment": "{count} boards ask for a certificate: {names}",
    "lost": "{count} devices are lost: {names}",
    "muted": "{count} devices are muted, they send only garbage: {names}",
    "limited": "{count} devices send more than their budgets: {names}",
    "strained": "{count} boards are slowed down or run on battery: {names}",
    "problem": "{device} gave up a round: {reason}",
    "installing": "{device} could not install its agent: {reason}",
    "update": "{device} did not take the update to {version}: {reason}",
}
MOST = 5  # alarms about one device each
NAMED = 5
FULL = 0.1  # of the disk that is free
SOON_S = 14 * 86400.0  # before a certificate ends


def alarms(
    config: FleetConfig,
    facts: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    now: float,
    asking: Sequence[str] = (),
) -> list[str]:
    """All that hold, the gravest first; `rows` are the devices as the page shows them, `asking` wait for approval."""
    found = [*_of_service(config, facts, now), *_counted("enrolment", asking), *_of_devices(rows)]
    return [ALARMS[name].format(**values) for name, values in found]


def _of_service(config: FleetConfig, facts: Mapping[str, Any], now: float) -> Iterator[tuple[str, dict[str, Any]]]:
    if not facts["running"]:
        yield "stopped", {}
    elif not facts["connected"]:
        yield "broker", {}
    last = facts["round"]
    if facts["stuck"]:
        yield "stuck", {"number": last["number"], "reason": facts["stuck"]}
    if last and last["phase"] == "abandoned":
        yield "abandoned", {"number": last["number"], "reason": last["reason"]}
    disk = facts["disk"]
    if disk["free"] < FULL * disk["size"]:
        yield "disk", {"free": f"{disk['free'] // 10**6:,}"}
    for name, end in certificate_ends(config.broker.tls).items():
        if end - now < SOON_S:
            yield "certificate", {"name": name, "left": coarse(end - now)}


def _of_devices(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, holds in (
        ("lost", [row["state"] == "lost" for row in rows]),
        ("muted", [row["state"] == "muted" for row in rows]),
        ("limited", [bool(row["limited"]) for row in rows]),
        ("strained", [bool(row["strained"]) for row in rows]),
    ):
        yield from _counted(name, [row["id"] for row, true in zip(rows, holds, strict=True) if true])
    for name, key in (("problem", "problem"), ("installing", "installing")):
        for row in [row for row in rows if row[key]][:MOST]:
            yield name, {"device": row["id"], "reason": row[key]}
    for row in [row for row in rows if row["upgrade"] in ("back", "refused")][:MOST]:
        yield "update", {"device": row["id"], "version": row["upgrade_to"], "reason": row["upgrade_reason"]}


def _counted(name: str, devices: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    more = [f"{len(devices) - NAMED} more"] if len(devices) > NAMED else []
    if devices:
        yield name, {"count": len(devices), "names": ", ".join([*devices[:NAMED], *more])}


def strained(telemetry: Mapping[str, Any]) -> str:
    """What slows a board down or will stop it; empty if nothing does.

    >>> strained({"throttled": True, "undervoltage": True, "on_battery": True, "battery": 0.125})
    'throttled, power supply too weak, on battery with 12 %'
    """
    words = ["throttled"] if telemetry.get("throttled") else []
    words += ["power supply too weak"] if telemetry.get("undervoltage") else []
    if telemetry.get("on_battery"):
        words.append(f"on battery with {100 * telemetry['battery']:.0f} %")
    return ", ".join(words)
