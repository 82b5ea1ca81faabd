"""Every device of the newest round, invited or in training, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from aggregator.config.fleet import FleetConfig
from aggregator.storage.journal import Journal

__all__ = ["live_round", "stage_of"]

Stage = tuple[str, str, float | None]  # a word, a note, and the part that is done if that is known
#: Units of what is done, by the stage that a device reports.
UNITS = {"fetching": "chunks", "training": "steps", "uploading": "chunks"}


def live_round(
    config: FleetConfig, facts: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """In the order of device ids; empty before the first round."""
    last = facts["round"]
    if last is None:
        return []
    by = {row["id"]: row for row in rows}
    with closing(Journal(config.state / "journal.db", read_only=True)) as journal:
        invited = [row.device for row in journal.invitations(last["number"])]
        updates = {row.device: row for row in journal.updates(last["number"])}
        jobs = {job.device: job.round for job in journal.jobs("open")} if last["buffer"] else {}
        if last["buffer"]:  # those who train, then those who wait for the fusion
            updates |= {row.device: row for row in journal.buffer() if last["phase"] == "open"}
            invited = [*sorted(jobs), *sorted(updates.keys() - jobs.keys())]
    refused = {r["device"]: r["reason"] for r in facts["refusals"] if r["round"] == last["number"]}
    shown = []
    for name in invited:
        row = by.get(name, {"state": "unknown", "telemetry": {}})
        update = None if name in jobs else updates.get(name)
        if update is not None:
            stage: Stage = "accepted", f"{update.size:,} bytes, {update.num_examples:,} examples", None
        elif name in last["failed"]:
            stage = "failed", last["failed"][name], None
        elif name in last["excluded"]:
            stage = "excluded", last["excluded"][name], None
        elif (sent := facts["transfers"].get(name)) is not None:
            stage = "uploading", f"{sent[0]:,} of {sent[1]:,} bytes", _part(*sent)
        elif name in refused:
            stage = "refused", refused[name], None
        elif last["phase"] != "open" and name not in jobs:
            stage = "no answer", "", None
        else:
            stage = stage_of(row["telemetry"], jobs.get(name, last["number"]))
        word, note, part = stage
        shown.append({"device": name, "state": row["state"], "stage": word, "note": note, "part": part})
    return shown


def stage_of(telemetry: Mapping[str, Any], number: int) -> Stage:
    """What a device that has not answered reports of this round.

    >>> stage_of({"round": 3, "stage": "training", "done": 30, "total": 120}, 3)
    ('training', '30 of 120 steps', 0.25)
    >>> stage_of({"round": 2, "stage": "training", "done": 30, "total": 120}, 3)
    ('asked', '', None)
    """
    if telemetry.get("round") != number:
        return "asked", "", None
    stage, done, total = telemetry["stage"], telemetry["done"], telemetry["total"]
    if stage == "waiting":
        return stage, "its training failed; it tries again", None
    if stage not in UNITS or not total:
        return stage, "", None
    return stage, f"{done:,} of {total:,} {UNITS[stage]}", _part(done, total)


def _part(done: int, total: int) -> float | None:
    return min(done / total, 1.0) if total else None
