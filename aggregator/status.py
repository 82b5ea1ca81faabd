"""Status of the fleet, for people and scripts: from the journal, and from a small file written by the service.

state/lock          held by the running service, which alone may write rounds and models
state/status.json   state of the running service that is not in the journal; at most a second old
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from aggregator.config.fleet import FleetConfig
from aggregator.downlink.upgrades import device_software
from aggregator.failed_installs import failed_installs
from aggregator.monitoring.disk import disk_use
from aggregator.monitoring.telemetry import read_telemetry
from aggregator.monitoring.waiting import progress_text, waiting_for
from aggregator.storage.journal import Journal
from aggregator.storage.rows import DeviceRow, RoundRow
from core.errors import ConfigError

__all__ = [
    "device_facts",
    "device_problems",
    "fleet_status",
    "is_running",
    "last_report",
    "limited_devices",
    "only_service",
    "own_accuracy",
    "round_facts",
    "write_status",
]


SOFTWARE = ("version", "upgrade", "upgrade_reason", "upgrade_to")


@contextmanager
def only_service(state: Path) -> Iterator[None]:
    """A context in which this process is the only service on the folder; the lock is released when the process ends."""
    state.mkdir(parents=True, exist_ok=True)
    with (state / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{state}: another aggregator is running on it; stop it first") from None
        yield


def is_running(state: Path) -> bool:
    """Whether a service holds the lock."""
    try:
        with (state / "lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def write_status(state: Path, facts: dict[str, Any]) -> None:
    """Replace status.json; it need not survive a power cut, so it is not synced."""
    beside = state / ".status.json"
    beside.write_text(json.dumps(facts))
    os.replace(beside, state / "status.json")


def fleet_status(config: FleetConfig) -> dict[str, Any]:
    """The output of `edgestill status --json`."""
    running = is_running(config.state)
    journal = Journal(config.state / "journal.db", read_only=True)
    try:
        last = journal.last_round()
        completed = journal.completed()
        fused = last_report(journal).get("devices", {})
        known = fused, limited_devices(config.state), journal.newest_metrics(), device_problems(journal)
        failed, software = failed_installs(journal), device_software(journal, time.time())
        rows = {row.id: row for row in journal.devices()}
        rows |= {name: DeviceRow(id=name) for name in failed if name not in rows}
        facts: dict[str, Any] = {
            "fleet": config.fleet,
            "running": running,
            "connected": bool(running and _live(config.state).get("connected")),
            "phase": _live(config.state).get("phase", "stopped") if running else "stopped",
            "transfers": _live(config.state).get("transfers", {}) if running else {},
            "hold": journal.get("hold", "running"),
            "done": _live(config.state).get("done", "") if running else "",
            "stuck": _live(config.state).get("stuck", "") if running else "",
            "rounds_completed": completed,
            "rounds_wanted": config.round.rounds,
            "round": None if last is None else round_facts(journal, last),
            "models": {name: _model_facts(m) for name, m in journal.current().items()},
            "devices": [device_facts(row, *known, failed, software) for row in rows.values()],
            "devices_configured": len(config.devices),
            "refusals": [
                {"device": r.device, "round": r.round, "reason": r.reason, "time": r.time} for r in journal.refusals(10)
            ],
            "min_devices": config.round.min_devices,
            "disk": disk_use(config, journal),
            "throttled": config.round.throttled,
        }
        telemetry = read_telemetry(config.state, time.time())
        for device in facts["devices"]:
            device["telemetry"] = telemetry.get(device["id"], {})
        return {**facts, "waiting_for": waiting_for(facts, time.time())}
    finally:
        journal.close()


def device_facts(
    row: DeviceRow,
    fused: Mapping[str, Any] = MappingProxyType({}),
    limited: Mapping[str, int] = MappingProxyType({}),
    metrics: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
    problems: Mapping[str, str] = MappingProxyType({}),
    failed: Mapping[str, str] = MappingProxyType({}),
    software: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> dict[str, Any]:
    """One device, as `edgestill status --json` and `edgestill device list --json` print it.

    `fused` is the report of the last fused round on each device's update: its weight, score, and why it was excluded;
    `limited` the number of messages dropped unread of each device over its budget; `metrics` the training metrics of
    each; `problems` why devices have given up the last round; `failed` why boards could not install their agent;
    `software` the version of edgestill, and how far its upgrade is. `state` is one word: revoked, installing, muted, or
    the status. `own_accuracy` is that of the board's model on its held-out samples, as reported; `other_extractor` is
    set of a light device whose extractor is not the fleet's.
    """
    facts = {name: getattr(row, name) for name in DeviceRow.__slots__}
    state = row.state(time.time())
    return {
        **facts,
        "state": "installing" if row.id in failed and state != "revoked" else state,
        "data": msgspec.structs.asdict(row.samples),
        "limited": limited.get(row.id, 0),
        "fused": fused.get(row.id),
        "own_accuracy": own_accuracy(metrics.get(row.id, {})),
        "other_extractor": metrics.get(row.id, {}).get("other_extractor", 0) > 0,
        "problem": problems.get(row.id, ""),
        "installing": failed.get(row.id, ""),
        **{name: software.get(row.id, {}).get(name, "") for name in SOFTWARE},
    }


def own_accuracy(metrics: Mapping[str, float]) -> float | None:
    """Accuracy of the model that a board runs after its training, or of the previous one if that was kept.

    >>> own_accuracy({"accuracy": 0.75, "accuracy_before": 0.5}), own_accuracy({"train_loss": 0.1})
    (0.75, None)
    >>> own_accuracy({"accuracy": 0.75, "accuracy_before": 0.875, "refused": 1.0})
    0.875
    """
    told = metrics.get("accuracy_before" if metrics.get("refused") else "accuracy")
    return told if told is not None and 0 <= told <= 1 else None


def device_problems(journal: Journal) -> dict[str, str]:
    """Why devices have given up the newest round, or the previous one, if they have not answered since."""
    last = journal.last_round()
    if last is None:
        return {}
    answered = {row.device for row in (*journal.updates(last.number), *journal.buffer())}
    found = {**journal.failures(last.number - 1), **journal.failures(last.number)}
    return {device: reason for device, reason in found.items() if device not in answered}


def limited_devices(state: Path) -> dict[str, int]:
    """Devices over their budgets in the last minute, from the running service: number of messages dropped unread."""
    found = _live(state).get("limited", {}) if is_running(state) else {}
    return dict(found) if isinstance(found, dict) else {}


def last_report(journal: Journal) -> dict[str, Any]:
    """The fusion report of the last closed round; empty before there is one."""
    last = journal.last_closed()
    return {} if last is None else journal.report(last.number)


def _live(state: Path) -> dict[str, Any]:
    try:
        facts = json.loads((state / "status.json").read_text())
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def round_facts(journal: Journal, row: RoundRow) -> dict[str, Any]:
    """One round, as `edgestill status --json` and `edgestill round list --json` print it.

    `buffer` is the number of updates that an asynchronous round fuses, 0 of a synchronous one.
    """
    facts = _facts_of_both(journal, row)
    if row.buffer:
        count = len(journal.buffer()) if row.phase == "open" else journal.count_updates(row.number)
        training = [job.device for job in journal.jobs("open")] if row.phase == "open" else []
        staleness = journal.staleness(row.number)
        facts |= {"invited": row.buffer, "answered": count, "awaited": training, "staleness": staleness}
    return {**facts, "progress": progress_text(facts)}


def _facts_of_both(journal: Journal, row: RoundRow) -> dict[str, Any]:
    """The facts of a synchronous round, and what an asynchronous one has of them."""
    invited = [invitation.device for invitation in journal.invitations(row.number)]
    answered = {update.device for update in journal.updates(row.number)}
    failed = journal.failures(row.number)
    return {
        "number": row.number,
        "phase": row.phase,
        "invited": len(invited),
        "answered": len(answered),
        "awaited": [name for name in invited if row.phase == "open" and name not in answered and name not in failed],
        "late": len(journal.updates(row.number, late=True)),
        "excluded": journal.excluded(row.number),
        "failed": failed,
        "opened": row.opened,
        "deadline": row.deadline,
        "later": _later(journal, row),
        "closed": row.closed,
        "reason": row.reason,
        "buffer": row.buffer,
        "seconds_by": journal.report(row.number).get("seconds", {}),
    }


def _later(journal: Journal, row: RoundRow) -> dict[str, Any] | None:
    """The later deadline of devices that are slowed down, and who they are."""
    found = None if row.extended else journal.later(row.number)
    return None if found is None else {"deadline": found[0], "devices": found[1]}


def _model_facts(model: Any) -> dict[str, Any]:
    return {"digest": model.digest, "round": model.round, "origin": model.origin, "metrics": dict(model.metrics)}
