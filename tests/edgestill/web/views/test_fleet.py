"""The values of the views, of a journal made by hand."""

from __future__ import annotations

import json
import re
import time
from contextlib import closing
from typing import Any

import pytest

from aggregator.config.fleet import FleetConfig
from aggregator.failed_installs import FailedInstalls
from aggregator.storage.journal import Journal
from edgestill.web.views import fleet as views
from edgestill.web.views.fleet import MODELS, PAGE
from tests.aggregator.journals import a_model, digest
from tests.edgestill.cli.typed import run
from wire.messages import Installing


def test_the_overview_has_states_alarms_and_the_stage_of_every_device(config: FleetConfig) -> None:
    facts = views.overview(config)
    assert facts["states"] == {"online": 1, "lost": 1, "revoked": 1, "never heard of": 1}
    assert facts["alarms"] == [
        "The aggregator is not running; this is the state in its journal.",
        "1 devices are lost: pi-1",
        "pi-1 gave up a round: out of memory",
    ]
    stages = {row["device"]: (row["stage"], row["note"]) for row in facts["live"]}
    assert stages == {
        "pi-0": ("accepted", "77 bytes, 5 examples"),
        "pi-1": ("failed", "out of memory"),
        "pi-2": ("refused", "<b>a shape</b>"),
    }


def table(config: FleetConfig, **changes: Any) -> dict[str, Any]:
    asked = {"sort": "id", "descending": False, "state": "", "text": "", "page": 1}
    return views.devices(config, **{**asked, **changes})


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, ["pi-0", "pi-1", "pi-2", "pi-3"]),
        ({"sort": "seen", "descending": True}, ["pi-0", "pi-1", "pi-2", "pi-3"]),
        ({"sort": "seen"}, ["pi-2", "pi-1", "pi-0", "pi-3"]),  # a device without a value comes last either way
        ({"sort": "no such column"}, ["pi-0", "pi-1", "pi-2", "pi-3"]),
        ({"state": "lost"}, ["pi-1"]),
        ({"text": "RPI"}, ["pi-0", "pi-1"]),
        ({"text": "nothing"}, []),
        ({"sort": "weight"}, ["pi-1", "pi-0", "pi-2", "pi-3"]),
    ],
)
def test_devices_are_filtered_and_sorted(config: FleetConfig, changes: dict[str, Any], names: list[str]) -> None:
    found = table(config, **changes)
    assert [row["id"] for row in found["rows"]] == names
    assert (found["count"], found["all"]) == (len(names), 4)


def test_many_devices_come_in_pages(config: FleetConfig) -> None:
    with closing(Journal(config.state / "journal.db")) as journal, journal.transaction():
        for number in range(2 * PAGE):
            journal.note_device(f"x-{number:04}", status="online")
    last = table(config, page=99)
    assert (last["page"], last["pages"], len(last["rows"])) == (3, 3, 4)
    assert len(table(config, page=-1)["rows"]) == PAGE


def test_a_device_has_its_rounds_and_refusals(config: FleetConfig) -> None:
    found = views.device(config, "pi-1")
    assert [(row["round"], row["answered"], row["weight"], row["note"]) for row in found["history"]] == [
        (3, False, None, "out of memory"),
        (2, False, 0.25, "far"),
        (1, False, 0.25, "far"),
    ]
    assert [r.reason for r in views.device(config, "pi-2")["refusals"]] == ["<b>a shape</b>"]
    silent = views.device(config, "pi-3")
    assert (silent["device"]["state"], silent["history"]) == ("unknown", [])


def test_models_come_newest_first_with_the_current_ones_marked(config: FleetConfig) -> None:
    found = views.models(config)
    assert [(m["round"], m["current"]) for m in found["rows"]] == [(2, True), (1, False), (0, False)]
    assert (found["all"], sorted(found["numbers"].values())) == (3, [1, 2, 3])


def test_of_many_models_the_newest_are_listed_and_older_ones_that_are_kept_on_purpose(config: FleetConfig) -> None:
    with closing(Journal(config.state / "journal.db")) as journal, journal.transaction():
        for number in range(MODELS):
            journal.add_model(a_model(f"x{number}", "mlp:fp32", number))
        journal.set_pin(digest("m1"), True)
        journal.prune([1])
    found = views.models(config)
    assert (len(found["rows"]), found["all"]) == (MODELS + 2, MODELS + 3)
    assert [(m["number"], m["pinned"], m["current"]) for m in found["rows"][-2:]] == [
        (3, False, True),
        (2, True, False),
    ]


def test_charts_have_a_value_for_every_fused_round(config: FleetConfig) -> None:
    assert views.chart_data(config) == {
        "rounds": [1, 2],
        "accuracy": {"cnn:w1": [0.25, 0.5]},
        "bytes": {"accepted": [100, 200]},
        "seconds": {"whole round": [10.0, 10.0], "average": [0.5, 1.0]},
        "score": {"pi-0": [0.9, 0.9], "pi-1": [0.1, 0.1]},
        "weight": {"pi-0": [0.75, 0.75], "pi-1": [0.25, 0.25]},
    }


def test_a_board_that_cannot_install_is_an_alarm(config: FleetConfig) -> None:
    with closing(Journal(config.state / "journal.db")) as journal:
        installs = FailedInstalls(journal, lambda: 5.0)
        installs.heard("pi-3", Installing(number=1, reason="the disk is full"), online=False)
        installs.keep(at_once=True)
    facts = views.overview(config)
    assert "pi-3 could not install its agent: the disk is full" in facts["alarms"]
    (row,) = table(config, state="installing")["rows"]
    assert (row["id"], row["installing"]) == ("pi-3", "the disk is full")


def test_without_a_request_there_is_no_enrolment(config: FleetConfig) -> None:
    assert views.enrolments(config) == []


def test_the_page_and_both_commands_say_the_same_of_every_device(
    config: FleetConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    telemetry = {"time": time.time(), "stage": "idle", "temperature_c": 71.5, "throttled": True}
    (config.state / "telemetry.json").write_text(json.dumps({"pi-0": telemetry}))
    with closing(Journal(config.state / "journal.db")) as journal, journal.transaction():
        journal.note_device("pi-1", muted_until=time.time() + 900)
    page = {row["id"]: (row["state"], row["telemetry"], row["accepted"]) for row in table(config)["rows"]}
    assert {name: row[0] for name, row in page.items()} == {
        "pi-0": "online",
        "pi-1": "muted",
        "pi-2": "revoked",
        "pi-3": "unknown",
    }
    assert page["pi-0"][1] == telemetry
    for command in (["status"], ["device", "list"]):
        _, text, _ = run(capsys, *command, "--json", "--config", config.path)
        facts = json.loads(text)
        devices = facts["devices"] if isinstance(facts, dict) else facts
        said = {one["id"]: (one["state"], one["telemetry"], one["accepted"]) for one in devices}
        assert said == {name: row for name, row in page.items() if name in said}
        assert len(said) >= 3
        _, text, _ = run(capsys, *command, "--config", config.path)
        shown = dict(line.split()[:2] for line in text.splitlines() if re.match("pi-. +[a-z]", line))
        assert {name: state.strip(",") for name, state in shown.items()} == {name: page[name][0] for name in said}
        assert "throttled" in text


def test_a_board_that_is_slowed_down_is_an_alarm_and_a_note(config: FleetConfig) -> None:
    told = {"time": time.time(), "stage": "idle", "undervoltage": True, "load": 1.5}
    (config.state / "telemetry.json").write_text(json.dumps({"pi-0": told}))
    assert "1 boards are slowed down or run on battery: pi-0" in views.overview(config)["alarms"]
    row = table(config)["rows"][0]
    assert (row["strained"], row["load"], row["temperature_c"]) == ("power supply too weak", 1.5, None)


def test_a_device_has_its_log_and_what_can_be_set(config: FleetConfig) -> None:
    (config.state / "logs").mkdir()
    tail = {"number": 1, "time": 5.0, "withheld": False, "lines": ["a"]}
    (config.state / "logs" / "pi-0.json").write_text(json.dumps(tail))
    found = views.device(config, "pi-0")
    assert (found["tail"], "train.threads" in found["settable"]) == (tail, True)
    assert views.device(config, "pi-1")["tail"] is None
