"""Why a fleet does not progress at this moment, in one line: from the facts of `edgestill status`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.durations import coarse

__all__ = ["WAITS", "progress_text", "waiting_for"]

NAMED = 5  # devices in the line
#: Every line; docs/operate-reference.md says what to do about each.
WAITS: Mapping[str, str] = {
    "broker": "waiting for the broker",
    "starting": "the first models are being made",
    "devices": "waiting for devices: {online} online, {needed} needed{names}",
    "updates": "waiting for {count} of {invited} devices{names}; {deadline}",
    "fusing": "fusing {count} updates of round {number}",
    "stuck": "round {number} cannot be fused: {reason}; "
    "`edgestill aggregator resume` tries it again, `edgestill round skip` gives it up",
    "paused": "no further round until `edgestill aggregator resume`",
}


def waiting_for(facts: Mapping[str, Any], now: float) -> str:
    """
    >>> device = {"id": "pi-02", "status": "lost", "seen": 100.0, "muted_until": 0.0, "revoked": False, "problem": ""}
    >>> round = {"awaited": ["pi-02"], "invited": 3, "deadline": 1000.0, "opened": 90.0}
    >>> facts = {"running": True, "connected": True, "phase": "collecting", "hold": "running", "done": ""}
    >>> waiting_for({**facts, "round": round, "devices": [device]}, 340.0)
    'waiting for 1 of 3 devices: pi-02 (lost, last heard of 4 min ago); deadline in 11 min'
    """
    if not facts["running"]:
        return ""
    if not facts["connected"]:
        return WAITS["broker"]
    match facts["phase"]:
        case "starting":
            return WAITS["starting"]
        case "collecting":
            return _for_updates(facts, now)
        case "fusing" if facts.get("stuck"):
            return WAITS["stuck"].format(number=facts["round"]["number"], reason=facts["stuck"])
        case "fusing":
            return WAITS["fusing"].format(count=facts["round"]["answered"], number=facts["round"]["number"])
        case "waiting" if facts["hold"] == "running" and not facts["done"]:
            return _for_devices(facts, now)
    return WAITS["paused"] if facts["hold"] == "paused" else ""


def progress_text(row: Mapping[str, Any]) -> str:
    """How far a round is.

    >>> progress_text({"buffer": 0, "phase": "open", "answered": 2, "invited": 3})
    '2 of 3 answered'
    >>> progress_text({"buffer": 5, "phase": "open", "answered": 3, "invited": 5})
    '3 of 5 updates in the buffer'
    """
    if not row.get("buffer"):
        return f"{row['answered']} of {row['invited']} answered"
    if row["phase"] == "open":
        return f"{row['answered']} of {row['buffer']} updates in the buffer"
    return f"{row['answered']} updates"


def _for_buffer(facts: Mapping[str, Any], now: float) -> str:
    """Of an asynchronous round: what the buffer has, and who trains."""
    row = facts["round"]
    if not row["awaited"]:
        return f"{progress_text(row)}, nobody trains; {_for_devices(facts, now)}"
    count = len(row["awaited"])
    return f"{progress_text(row)}; {count} device{'s' * (count > 1)} train{'s' * (count == 1)}: {_awaited(facts, now)}"


def _awaited(facts: Mapping[str, Any], now: float) -> str:
    devices = {device["id"]: device for device in facts["devices"]}
    unknown = {"status": "unknown", "seen": 0.0, "muted_until": 0.0, "revoked": False, "problem": ""}
    return _some([_shown(name, devices.get(name, unknown), now) for name in facts["round"]["awaited"]])


def _for_updates(facts: Mapping[str, Any], now: float) -> str:
    row = facts["round"]
    if row.get("buffer"):
        return _for_buffer(facts, now)
    awaited = row["awaited"]
    shown = _awaited(facts, now)
    later = row.get("later") or {"deadline": 0.0, "devices": ()}
    left = max([row["deadline"], *(later["deadline"] for name in awaited if name in later["devices"])]) - now
    deadline = f"deadline in {coarse(left)}" if left > 0 else f"the deadline was {coarse(-left)} ago"
    names = f": {shown}" if shown else ""
    return WAITS["updates"].format(count=len(awaited), invited=row["invited"], names=names, deadline=deadline)


def _for_devices(facts: Mapping[str, Any], now: float) -> str:
    out = facts.get("throttled") == "leave-out"
    idle = {d["id"]: _state(d, now) == "online" and not (out and throttled(d)) for d in facts["devices"]}
    ready = [device for device in facts["devices"] if idle[device["id"]]]
    others = [_shown(device["id"], device, now) for device in facts["devices"] if not idle[device["id"]]]
    silent = facts["devices_configured"] - len(facts["devices"])
    if silent > 0:
        others.append(f"{silent} never heard of")
    shown = _some(others)
    names = f"; {shown}" if shown else ""
    return WAITS["devices"].format(online=len(ready), needed=facts["min_devices"], names=names)


def _shown(name: str, device: Mapping[str, Any], now: float) -> str:
    state = _state(device, now)
    if device["problem"]:
        return f"{name} (failed: {device['problem']})"
    if throttled(device):
        state += ", throttled"
    if not device["seen"]:
        return f"{name} ({state}, not heard of yet)"
    return f"{name} ({state}, last heard of {coarse(now - device['seen'])} ago)"


def _state(device: Mapping[str, Any], now: float) -> str:
    if device["revoked"]:
        return "revoked"
    if device["muted_until"] > now:
        return "muted"
    waits = device["status"] == "online" and (device.get("data") or {}).get("waiting")
    if waits:
        return "waiting for samples"
    return str(device["status"])


def throttled(device: Mapping[str, Any]) -> bool:
    """Whether its processor is slowed down, as it reports."""
    return bool((device.get("telemetry") or {}).get("throttled"))


def _some(words: Sequence[str]) -> str:
    more = [f"{len(words) - NAMED} more"] if len(words) > NAMED else []
    return ", ".join([*words[:NAMED], *more])
