"""A fleet with two rounds behind it and a third open, made by hand; no service runs."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from aggregator.config.fleet import FleetConfig, load_fleet_config
from aggregator.storage.journal import Journal
from aggregator.storage.rows import Refusal
from edgestill.web.app import make_app
from edgestill.web.changes import Changes
from edgestill.web.token import make_token
from tests.aggregator.journals import a_model, a_round, an_update, asked
from tests.aggregator.scripted import write_fleet
from transport.config import BrokerConfig

LOCAL = "http://127.0.0.1:8080"


@pytest.fixture
def config(tmp_path: Path) -> FleetConfig:
    config = load_fleet_config(write_fleet(tmp_path, BrokerConfig(), ["pi-0", "pi-1", "pi-2", "pi-3"]))
    config.state.mkdir()
    with closing(Journal(config.state / "journal.db")) as journal, journal.transaction():
        journal.add_model(a_model("start", "cnn:w1"))
        for number in (1, 2):
            journal.add_model(a_model(f"m{number}", "cnn:w1", number, metrics={"accuracy": number / 4}))
            journal.open_round(a_round(number, "closed", closed=11.0), asked("pi-0", "pi-1", model="start"))
            devices = {
                "pi-0": {"weight": 0.75, "score": 0.9},
                "pi-1": {"weight": 0.25, "score": 0.1, "screened": "far"},
            }
            journal.add_report(number, {"devices": devices, "seconds": {"average": 0.5 * number}})
            journal.add_update(an_update("pi-0", number, size=100 * number))
        journal.open_round(a_round(3, deadline=4e9), asked("pi-0", "pi-1", "pi-2", model="m2"))
        journal.add_update(an_update("pi-0", 3, size=77))
        journal.add_failure(3, "pi-1", "out of memory")
        journal.add_refusal(Refusal(device="pi-2", transfer="t", round=3, reason="<b>a shape</b>", time=5.0))
        journal.note_device("pi-0", status="online", seen=900.0, board="rpi-4", prototype="cnn:w1")
        journal.note_device("pi-1", status="lost", seen=800.0, board="rpi-5", prototype="cnn:w1")
        journal.note_device("pi-2", status="online", seen=700.0, board="<script>alert(1)</script>", revoked=1)
    return config


@pytest.fixture
def browser(config: FleetConfig) -> TestClient:
    """One on this machine, not logged in."""
    app = make_app(config, Changes(config.state), open_reading=True, secure=False, loopback=True)
    return TestClient(app, base_url=LOCAL, follow_redirects=False)


@pytest.fixture
def operator(config: FleetConfig, browser: TestClient) -> TestClient:
    """The same, logged in."""
    assert browser.post("/login", data={"token": make_token(config.state)}).status_code == 303
    return browser
