"""The stage of every invited device."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from aggregator.config.fleet import FleetConfig
from aggregator.storage.journal import Journal
from aggregator.storage.rows import JobRow
from edgestill.web.views.fleet import overview
from edgestill.web.views.live_round import stage_of
from tests.aggregator.journals import a_round, an_update, asked, digest


@pytest.mark.parametrize(
    ("telemetry", "shown"),
    [
        ({}, ("asked", "", None)),
        ({"round": 4, "stage": "fetching", "done": 3, "total": 12}, ("fetching", "3 of 12 chunks", 0.25)),
        ({"round": 4, "stage": "fetching", "done": 0, "total": 0}, ("fetching", "", None)),
        ({"round": 4, "stage": "training", "done": 130, "total": 120}, ("training", "130 of 120 steps", 1.0)),
        (
            {"round": 4, "stage": "waiting", "done": 0, "total": 0},
            ("waiting", "its training failed; it tries again", None),
        ),
        ({"round": 3, "stage": "uploading", "done": 1, "total": 2}, ("asked", "", None)),
    ],
)
def test_a_device_that_has_not_answered_shows_what_it_reports(
    telemetry: dict[str, Any], shown: tuple[Any, ...]
) -> None:
    assert stage_of(telemetry, 4) == shown


def test_the_aggregator_knows_better_what_has_arrived(config: FleetConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Journal(config.state / "journal.db")) as journal, journal.transaction():
        journal.set_round(3, phase="closed", closed=12.0)
        journal.open_round(a_round(4, deadline=4e9), asked("pi-0", "pi-1", model="m2"))
    told = {"time": time.time(), "round": 4, "stage": "uploading", "done": 1, "total": 4}
    (config.state / "telemetry.json").write_text(json.dumps({"pi-0": told, "pi-1": told}))
    monkeypatch.setattr("aggregator.status.is_running", lambda _: True)
    (config.state / "status.json").write_text(json.dumps({"transfers": {"pi-0": [300, 400]}, "connected": True}))
    live = {row["device"]: (row["stage"], row["note"], row["part"]) for row in overview(config)["live"]}
    assert live == {
        "pi-0": ("uploading", "300 of 400 bytes", 0.75),
        "pi-1": ("uploading", "1 of 4 chunks", 0.25),
    }


def test_of_an_asynchronous_round_those_who_train_come_before_those_in_the_buffer(
    config: FleetConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = JobRow(
        number=1,
        round=3,
        version=1,
        device="pi-1",
        prototype="cnn:w1",
        model=digest("m2"),
        side_artifact=None,
        given=1.0,
        deadline=4e9,
    )
    with closing(Journal(config.state / "journal.db")) as journal, journal.transaction():
        journal.set_round(3, phase="closed", closed=12.0)
        journal.open_round(a_round(4, buffer=3), [])
        journal.give_job(job)
        journal.give_job(replace(job, number=2, device="pi-0", round=4))
        journal.add_update(an_update("pi-0", 4, job=2, size=1234))
    told = {"time": time.time(), "round": 3, "stage": "training", "done": 1, "total": 4}
    (config.state / "telemetry.json").write_text(json.dumps({"pi-1": told}))
    monkeypatch.setattr("aggregator.status.is_running", lambda _: True)
    (config.state / "status.json").write_text(json.dumps({"phase": "collecting", "connected": True}))
    facts = overview(config)
    assert [(row["device"], row["stage"], row["note"]) for row in facts["live"]] == [
        ("pi-1", "training", "1 of 4 steps"),
        ("pi-0", "accepted", "1,234 bytes, 5 examples"),
    ]
    assert facts["round"]["progress"] == "1 of 3 updates in the buffer"
    assert facts["waiting_for"].startswith("1 of 3 updates in the buffer; 1 device trains: pi-1 (")
