"""The values of the views of a running fleet, from the journal and the files of the service."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from aggregator.config.fleet import FleetConfig
from aggregator.downlink.device_settings import settings_facts
from aggregator.downlink.log_requests import read_tail
from aggregator.monitoring.telemetry import read_telemetry
from aggregator.status import device_facts, fleet_status
from aggregator.storage.journal import Journal
from aggregator.storage.models import model_facts
from aggregator.storage.rows import DeviceRow
from edge_agent.remote_settings.allowed import SETTABLE
from edgestill.web.views.alarms import alarms, strained
from edgestill.web.views.live_round import live_round

__all__ = ["COLUMNS", "NUMBERS", "PAGE", "chart_data", "device", "devices", "enrolments", "models", "overview"]

PAGE = 100  # devices of one page
MODELS = 200  # of the list
ROUNDS = 500  # of a chart
SERIES = 20  # devices of a chart
RECENT = 50  # rounds of a device's history
COLUMNS: Mapping[str, str] = {
    "id": "device",
    "state": "state",
    "prototype": "prototype",
    "board": "board",
    "version": "version",
    "seen": "last heard of",
    "temperature_c": "°C",
    "strained": "slowed down",
    "load": "load",
    "memory_mb": "free MB",
    "accepted": "accepted",
    "late": "late",
    "refused": "refused",
    "weight": "weight",
    "score": "score",
    "excluded": "excluded",
    "note": "note",
}
#: Columns whose values are numbers, and how they are written.
NUMBERS: Mapping[str, str] = {
    "temperature_c": "%.0f",
    "load": "%.1f",
    "memory_mb": "bytes",
    "accepted": "bytes",
    "late": "bytes",
    "refused": "bytes",
    "weight": "percent",
    "score": "percent",
}


def overview(config: FleetConfig) -> dict[str, Any]:
    """What goes on now: round, devices by state, alarms, the newest refusals."""
    facts = fleet_status(config)
    now = time.time()
    rows = _rows(config, facts["devices"], now)
    states: dict[str, int] = {}
    for row in rows:
        states[row["state"]] = states.get(row["state"], 0) + 1
    asking = [one["device"] for one in enrolments(config) if one["status"] == "waiting"]
    silent = facts["devices_configured"] - len(rows)
    if silent > 0:
        states["never heard of"] = silent
    return {
        **facts,
        "states": states,
        "alarms": alarms(config, facts, rows, now, asking),
        "live": live_round(config, facts, rows),
    }


def devices(config: FleetConfig, *, sort: str, descending: bool, state: str, text: str, page: int) -> dict[str, Any]:
    """One page of the devices that fit the filter, sorted."""
    facts, now = fleet_status(config), time.time()
    known = {found["id"] for found in facts["devices"]}
    silent = [device_facts(DeviceRow(id=name)) for name in config.devices if name not in known]
    rows = _rows(config, [*facts["devices"], *silent], now)
    states = sorted({row["state"] for row in rows})
    wanted = text.strip().lower()
    fit = [
        row
        for row in rows
        if (not state or row["state"] == state)
        and any(wanted in str(row[name] or "").lower() for name in ("id", "prototype", "board"))
    ]
    key = sort if sort in COLUMNS else "id"
    present = sorted((r for r in fit if r[key] is not None), key=lambda r: (r[key], r["id"]), reverse=descending)
    ordered = [*present, *(r for r in fit if r[key] is None)]
    pages = max(1, -(-len(ordered) // PAGE))
    page = min(max(page, 1), pages)
    return {
        "rows": ordered[(page - 1) * PAGE : page * PAGE],
        "count": len(ordered),
        "all": len(rows),
        "page": page,
        "pages": pages,
        "states": states,
        "sort": key,
    }


def _row(found: Mapping[str, Any], telemetry: Mapping[str, Any]) -> dict[str, Any]:
    fused = found["fused"] or {}
    return {
        **found,
        "seen": found["seen"] or None,
        "weight": fused.get("weight"),
        "score": fused.get("score"),
        "excluded": fused.get("screened") or None,
        "note": "; ".join(filter(None, (found["problem"], found["installing"], _upgrade_note(found)))) or None,
        "upgrade_note": _upgrade_note(found),
        "telemetry": telemetry,
        **{name: telemetry.get(name) for name in ("temperature_c", "load", "memory_mb")},
        "strained": strained(telemetry) or None,
    }


def _rows(config: FleetConfig, found: Sequence[Mapping[str, Any]], now: float) -> list[dict[str, Any]]:
    telemetry = read_telemetry(config.state, now)
    return [_row(one, telemetry.get(one["id"], {})) for one in found]


def _upgrade_note(found: Mapping[str, Any]) -> str:
    """How far the update of a device is; nothing once it has committed."""
    if found["upgrade"] in ("", "committed"):
        return ""
    reason = found["upgrade_reason"]
    return f"update to {found['upgrade_to']}: {found['upgrade']}{': ' * bool(reason)}{reason}"


def device(config: FleetConfig, name: str) -> dict[str, Any]:
    """One device: what is known of it, its settings, and its last rounds."""
    facts, now = fleet_status(config), time.time()
    found = next((row for row in facts["devices"] if row["id"] == name), device_facts(DeviceRow(id=name)))
    with closing(Journal(config.state / "journal.db", read_only=True)) as journal:
        settings = settings_facts(journal, name)
        history = [entry for row in journal.rounds(RECENT) if (entry := _history(journal, row, name)) is not None]
        refusals = [r for r in journal.refusals(1000) if r.device == name][:20]
    return {
        "device": _rows(config, [found], now)[0],
        "settings": settings,
        "settable": SETTABLE,
        "history": history,
        "refusals": refusals,
        "tail": read_tail(config.state, name),
    }


def _history(journal: Journal, row: Any, name: str) -> dict[str, Any] | None:
    update = next((u for u in journal.updates(row.number) if u.device == name), None)
    asked = {asked.device for asked in journal.invitations(row.number)} | journal.failures(row.number).keys()
    if update is None and name not in asked:
        return None
    fused = journal.report(row.number).get("devices", {}).get(name, {})
    return {
        "round": row.number,
        "phase": row.phase,
        "answered": update is not None,
        "bytes": update.size if update else None,
        "examples": update.num_examples if update else None,
        "loss": update.metrics.get("train_loss") if update else None,
        "weight": fused.get("weight"),
        "score": fused.get("score"),
        "note": fused.get("screened") or journal.failures(row.number).get(name, ""),
    }


def models(config: FleetConfig) -> dict[str, Any]:
    """The newest published models, newest first, and those that are kept of older ones; how many there are."""
    with closing(Journal(config.state / "journal.db", read_only=True)) as journal:
        current = {model.digest for model in journal.current().values()}
        pruned, pins, rows = journal.pruned(), journal.pins(), journal.models()
    newest = rows[-MODELS:]
    older = [row for row in rows[:-MODELS] if row.digest in current | pins]
    shown = [
        model_facts(row, current=row.digest in current, pruned=row.number in pruned, pinned=row.digest in pins)
        for row in reversed([*older, *newest])
    ]
    return {"rows": shown, "all": len(rows), "numbers": {row.digest: row.number for row in rows}}


def chart_data(config: FleetConfig) -> dict[str, Any]:
    """Series by round for the charts: accuracy by prototype, bytes, seconds by stage, scores and weights of devices."""
    with closing(Journal(config.state / "journal.db", read_only=True)) as journal:
        rounds = [row for row in reversed(journal.rounds(ROUNDS)) if row.phase == "closed"]
        numbers = [row.number for row in rounds]
        accuracy: dict[str, list[float | None]] = {}
        places = {number: place for place, number in enumerate(numbers)}
        for model in journal.models(since=min(numbers, default=0)):
            if "accuracy" in model.metrics and model.round in places:
                series = accuracy.setdefault(model.prototype, [None] * len(numbers))
                series[places[model.round]] = model.metrics["accuracy"]
        sizes = journal.update_sizes()
        reports = [journal.report(number) for number in numbers]
    stages = list(dict.fromkeys(stage for report in reports for stage in report.get("seconds", {})))
    names = sorted({name for report in reports for name in report.get("devices", {})})[:SERIES]
    return {
        "rounds": numbers,
        "accuracy": accuracy,
        "bytes": {"accepted": [sizes.get(number) for number in numbers]},
        "seconds": {
            "whole round": [None if row.closed is None else row.closed - row.opened for row in rounds],
            **{stage: [report.get("seconds", {}).get(stage) for report in reports] for stage in stages},
        },
        **{key: _by_device(reports, names, key) for key in ("score", "weight")},
    }


def _by_device(reports: Sequence[Mapping[str, Any]], names: Sequence[str], key: str) -> dict[str, list[float | None]]:
    """A value of each device by round; devices that never have it are left out."""
    found = {name: [report.get("devices", {}).get(name, {}).get(key) for report in reports] for name in names}
    return {name: series for name, series in found.items() if any(value is not None for value in series)}


def enrolments(config: FleetConfig) -> list[dict[str, Any]]:
    """Boards that ask for a certificate, with the fingerprints to compare."""
    from firmware_configs.use_cases.approve_boards import requests
    from wire.enrolment import shown

    return [
        {"device": name, "fingerprint": shown(entry["keys"]), "status": entry["status"], "asked": entry["asked"]}
        for name, entry in requests(config).items()
    ]
