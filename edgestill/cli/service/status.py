"""`edgestill status`: devices, round, progress and accuracies of a fleet, whether its aggregator runs or not."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from aggregator.fusion.example_cap import capped_text
from core.lost_devices import lost_text
from edgestill.cli.output import one_line, out, print_json, print_whole

__all__ = ["device_row", "device_table", "installing_lines", "problem_lines", "sample_lines", "status"]

ROWS = 40  # rows of devices; --json has all
PROBLEMS = 10  # lines about devices
DEVICE_COLUMNS = ("device", "status", "prototype", "examples", "accepted", "late", "refused", "weight", "score")


def status(
    config: Annotated[Path, typer.Option("--config", "-c", help="The fleet.toml.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh every second until Ctrl-C.")] = False,
) -> None:
    """Show the status of a fleet, also while its aggregator is down.

    Example:  edgestill status --config fleet.toml --watch
    """
    from aggregator.config.fleet import load_fleet_config
    from aggregator.status import fleet_status

    loaded = load_fleet_config(config)
    if as_json and not watch:
        print_json(fleet_status(loaded))
    elif as_json:
        while True:
            print_json(fleet_status(loaded))
            out.file.flush()
            time.sleep(1)
    elif watch:
        with Live(_page(fleet_status(loaded)), console=out, refresh_per_second=2) as live:
            while True:
                time.sleep(1)
                live.update(_page(fleet_status(loaded)))
    elif out.is_terminal:
        out.print(_page(fleet_status(loaded)))
    else:
        print_whole(_page(fleet_status(loaded)))


def _page(facts: dict[str, Any]) -> Group:
    return Group(*[Text(line) for line in _lines(facts)], Text(), _models(facts), Text(), _devices(facts))


def _lines(facts: dict[str, Any]) -> list[str]:
    service = "running" if facts["running"] else "NOT running; this is the state in its journal"
    if facts["running"] and not facts["connected"]:
        service += ", no connection to the broker"
    lines = [
        f"fleet {facts['fleet']}: aggregator {service}",
        f"rounds {facts['rounds_completed']} of {facts['rounds_wanted']} done; {_doing(facts)}",
    ]
    if facts["waiting_for"]:
        lines.append(one_line(facts["waiting_for"]))
    last = facts["round"]
    if last is not None:
        late = f", {last['late']} late" if last["late"] else ""
        reason = f" ({one_line(last['reason'])})" if last["reason"] else ""
        lines.append(f"round {last['number']} {last['phase']}{reason}: {last['progress']}{late}")
        lines += [
            f"excluded from round {last['number']}: {d}: {one_line(why)}"
            for d, why in list(last["excluded"].items())[:3]
        ]
        if last["failed"]:
            failed = {device: one_line(why) for device, why in last["failed"].items()}
            lines.append(f"round {last['number']}: {lost_text(failed, last['invited'])}")
    excluded = [(d["id"], d["fused"]["screened"]) for d in facts["devices"] if (d["fused"] or {}).get("screened")]
    capped = [(d["id"], d["fused"]["capped"]) for d in facts["devices"] if (d["fused"] or {}).get("capped")]
    lines += [f"capped in the last round: {device}: {capped_text(claim)}" for device, claim in capped[:3]]
    limited = {d["id"]: d["limited"] for d in facts["devices"] if d["limited"]}
    lines += [f"over its budget: {device}: {count} messages dropped unread" for device, count in [*limited.items()][:3]]
    lines += installing_lines(facts["devices"])
    lines += upgrade_lines(facts["devices"])
    lines += [disk_line(facts["disk"])] if "disk" in facts else []
    lines += [f"excluded from the last round: {device}: {one_line(why)}" for device, why in excluded[:3]]
    lines += [f"samples: {line}" for line in sample_lines(facts["devices"])]
    lines += [f"refused: {r['device']}, round {r['round']}: {one_line(r['reason'])}" for r in facts["refusals"][:3]]
    return lines


def _doing(facts: dict[str, Any]) -> str:
    if facts["hold"] != "running":
        return str(facts["hold"])
    return facts["done"] or str(facts["phase"])


def _models(facts: dict[str, Any]) -> Table:
    table = _table("prototype", "round", "accuracy", "float weights", "model")
    for name, model in facts["models"].items():
        metrics = model["metrics"]
        table.add_row(
            name,
            str(model["round"]),
            _percent(metrics.get("accuracy")),
            _percent(metrics.get("accuracy_float")),
            model["digest"][:12],
        )
    return table


def _devices(facts: dict[str, Any]) -> Table:
    columns, rows = device_table(facts["devices"][:ROWS])
    table = _table(*columns)
    for row in rows:
        table.add_row(*row)
    if len(facts["devices"]) > ROWS:
        table.add_row(f"… and {len(facts['devices']) - ROWS} more; --json has all")
    return table


def device_table(devices: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows; with versions, and with the accuracy on held-out samples of devices, if any reports it."""
    columns, rows = list(DEVICE_COLUMNS), [device_row(device) for device in devices]
    more = {
        "own accuracy": [_percent(device["own_accuracy"]) for device in devices],
        "version": [one_line(device["version"].partition("+")[0]) for device in devices],
    }
    for name, texts in more.items():
        if any(texts):
            columns, rows = [*columns, name], [[*row, text] for row, text in zip(rows, texts, strict=True)]
    return columns, rows


def device_row(device: dict[str, Any]) -> list[str]:
    """A device as a row of a table."""
    state = _state(device)
    counts = [str(device[name]) for name in ("examples", "accepted", "late", "refused")]
    fused = device["fused"] or {}
    weight = "excluded" if fused.get("screened") else _percent(fused.get("weight"))
    weight += ", capped" * bool(fused.get("capped"))
    return [device["id"], state, one_line(device["prototype"] or ""), *counts, weight, _percent(fused.get("score"))]


def _state(device: dict[str, Any]) -> str:
    if device["state"] in ("revoked", "muted"):
        return str(device["state"])
    notes = {
        "limited": device["limited"],
        "failed": device["problem"],
        "other extractor": device["other_extractor"],
        "waiting": device["data"]["waiting"],
        f"update {device['upgrade']}": device["upgrade"] not in ("", "committed"),
        "throttled": device.get("telemetry", {}).get("throttled"),
    }
    return ", ".join([device["state"], *(note for note, holds in notes.items() if holds)])


def problem_lines(devices: Sequence[dict[str, Any]]) -> list[str]:
    """The problems of the first few failed devices, one line each."""
    failed = [f"{device['id']}: {one_line(device['problem'])}" for device in devices if device["problem"]]
    more = len(failed) - PROBLEMS
    return failed[:PROBLEMS] + ([f"… and {more} more; --json has all"] if more > 0 else [])


def sample_lines(devices: Sequence[dict[str, Any]]) -> list[str]:
    """What the first few devices say of their samples, one line each."""
    said = [f"{device['id']}: {one_line(text)}" for device in devices if (text := samples_text(device["data"]))]
    more = len(said) - PROBLEMS
    return said[:PROBLEMS] + ([f"… and {more} more; --json has all"] if more > 0 else [])


def samples_text(data: dict[str, Any]) -> str:
    """What a device waits for, lacks, or has set aside; empty if all is well."""
    parts = [data["waiting"]] if data["waiting"] else []
    if data["lacks"]:
        parts.append(f"no sample of {', '.join(data['lacks'])}")
    if data["unknown"]:
        named = ", ".join(f"{name} ({count})" for name, count in data["unknown"].items())
        parts.append(f"not a class of the fleet: {named}")
    if data["rejected"]:
        parts.append(f"{data['rejected']} set aside, such as {data['reason']}")
    if data["unlabeled"]:
        parts.append(f"{data['unlabeled']} unlabeled")
    return "; ".join(parts)


def installing_lines(devices: Sequence[dict[str, Any]]) -> list[str]:
    """Why the first few boards could not install their agent, one line each."""
    failed = [
        f"{device['id']}: installing: {one_line(device['installing'])}" for device in devices if device["installing"]
    ]
    more = len(failed) - PROBLEMS
    return failed[:PROBLEMS] + ([f"… and {more} more; --json has all"] if more > 0 else [])


def disk_line(disk: Mapping[str, int]) -> str:
    """What the state folder holds, and what is free."""
    told = ", ".join(f"{kind} {disk[kind] / 1e6:,.1f} MB" for kind in ("models", "updates", "journal"))
    return f"disk: {told}; {disk['free'] / 1e9:,.1f} GB free"


def upgrade_lines(devices: Sequence[dict[str, Any]]) -> list[str]:
    """How far an update of edgestill is, and why it ended otherwise on the first few devices."""
    stages = Counter(device["upgrade"] for device in devices if device["upgrade"])
    if not stages:
        return []
    to = next(device["upgrade_to"] for device in devices if device["upgrade"]).partition("+")[0]
    ended = [
        d for d in devices if d["upgrade"] in ("back", "refused") or (d["upgrade"] == "offered" and d["upgrade_reason"])
    ]
    reasons = [f"{d['id']}: update: {d['upgrade']}: {one_line(d['upgrade_reason'])}" for d in ended]
    told = ", ".join(f"{count} {stage}" for stage, count in sorted(stages.items()))
    more = len(reasons) - PROBLEMS
    return [f"update to {one_line(to)}: {told}", *reasons[:PROBLEMS]] + ([f"… and {more} more"] if more > 0 else [])


def _table(*columns: str) -> Table:
    table = Table(header_style="bold", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column)
    return table


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"
