"""How the fleet is doing, while the service runs and while it does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from aggregator.config.fleet import load_fleet_config
from aggregator.status import fleet_status, is_running, only_service, write_status
from aggregator.storage.journal import Journal
from aggregator.storage.rows import Refusal
from core.errors import ConfigError
from edgestill.cli.service.status import device_table
from tests.aggregator.journals import a_model, a_round, an_update, asked, digest
from tests.aggregator.scripted import write_fleet
from transport.config import BrokerConfig

pytestmark = pytest.mark.light


def test_one_service_a_folder_and_the_lock_ends_with_it(tmp_path: Path) -> None:
    assert not is_running(tmp_path)
    with only_service(tmp_path):
        assert is_running(tmp_path)
        with pytest.raises(ConfigError, match="another aggregator is running on it"), only_service(tmp_path):
            pass
    assert not is_running(tmp_path)


def test_it_tells_devices_round_progress_and_accuracies(tmp_path: Path) -> None:
    config = load_fleet_config(write_fleet(tmp_path, BrokerConfig(), ["pi-0", "pi-1"]))
    config.state.mkdir()
    journal = Journal(config.state / "journal.db")
    journal.add_model(a_model(metrics={"accuracy": 0.75}))
    journal.open_round(a_round(4), asked("pi-0", "pi-1"))
    journal.add_update(an_update("pi-0", 4))
    journal.add_refusal(Refusal(device="pi-1", transfer="t", round=4, reason="a shape", time=1.0))
    journal.note_device("pi-0", status="online", prototype="mlp:fp32")
    facts = fleet_status(config)
    assert (facts["running"], facts["connected"], facts["phase"]) == (False, False, "stopped")
    assert (facts["round"]["number"], facts["round"]["invited"], facts["round"]["answered"]) == (4, 2, 1)
    assert facts["models"]["mlp:fp32"]["digest"] == digest("m")
    assert facts["models"]["mlp:fp32"]["metrics"] == {"accuracy": 0.75}
    assert [(d["id"], d["accepted"], d["refused"]) for d in facts["devices"]] == [("pi-0", 1, 0), ("pi-1", 0, 1)]
    assert facts["refusals"] == [{"device": "pi-1", "round": 4, "reason": "a shape", "time": 1.0}]
    with only_service(config.state):
        write_status(config.state, {"connected": True, "phase": "collecting", "done": ""})
        facts = fleet_status(config)
        assert (facts["running"], facts["connected"], facts["phase"]) == (True, True, "collecting")
        (config.state / "status.json").write_text("{ half")
        assert fleet_status(config)["connected"] is False


@pytest.mark.parametrize(
    ("metrics", "own"),
    [
        ({"accuracy": 0.75}, 0.75),
        ({"accuracy": 0.5, "accuracy_before": 0.75, "refused": 1.0}, 0.75),  # the board has kept the better one
        ({"accuracy": 1.5}, None),  # nobody is that good
        ({}, None),  # it holds out no samples
    ],
)
def test_a_device_tells_how_good_its_own_model_is(tmp_path: Path, metrics: dict, own: float | None) -> None:
    config = load_fleet_config(write_fleet(tmp_path, BrokerConfig(), ["pi-0"]))
    config.state.mkdir()
    journal = Journal(config.state / "journal.db")
    journal.open_round(a_round(1), asked("pi-0"))
    journal.add_update(replace(an_update("pi-0", 1), metrics=metrics))
    (device,) = fleet_status(config)["devices"]
    assert device["own_accuracy"] == own
    columns, rows = device_table([device])
    assert (columns[-1] == "own accuracy") == (own is not None)
    assert len(rows[0]) == len(columns)


def test_a_light_device_under_another_extractor_than_the_fleets_is_told(tmp_path: Path) -> None:
    config = load_fleet_config(write_fleet(tmp_path, BrokerConfig(), ["pi-0", "pi-1"]))
    config.state.mkdir()
    journal = Journal(config.state / "journal.db")
    journal.open_round(a_round(1), asked("pi-0", "pi-1"))
    journal.add_update(replace(an_update("pi-0", 1), metrics={"other_extractor": 1.0}))
    journal.add_update(an_update("pi-1", 1))
    devices = fleet_status(config)["devices"]
    assert [device["other_extractor"] for device in devices] == [True, False]
    _, rows = device_table(devices)
    assert ["other extractor" in row[1] for row in rows] == [True, False]


def test_it_tells_what_the_last_fused_round_made_of_each_device(tmp_path: Path) -> None:
    config = load_fleet_config(write_fleet(tmp_path, BrokerConfig(), ["pi-0"]))
    config.state.mkdir()
    journal = Journal(config.state / "journal.db")
    journal.open_round(a_round(1, "closed"), asked("pi-0"))
    journal.open_round(a_round(2), asked("pi-0"))
    seen = {"weight": 0.25, "score": 0.5, "screened": None}
    journal.add_report(1, {"devices": {"pi-0": seen}, "seconds": {"teach": 1.5}})
    journal.note_device("pi-0", status="online")
    journal.note_device("pi-1", status="online")
    facts = fleet_status(config)
    assert [d["fused"] for d in facts["devices"]] == [seen, None]
    assert facts["round"]["seconds_by"] == {}
    journal.set_round(2, phase="abandoned")
    assert fleet_status(config)["devices"][0]["fused"] == seen


def test_it_tells_why_devices_have_given_up(tmp_path: Path) -> None:
    config = load_fleet_config(write_fleet(tmp_path, BrokerConfig(), ["pi-0", "pi-1", "pi-2"]))
    config.state.mkdir()
    journal = Journal(config.state / "journal.db")
    journal.open_round(a_round(1, "closed"), asked("pi-0", "pi-1", "pi-2"))
    journal.open_round(a_round(2), asked("pi-0", "pi-1", "pi-2"))
    for device in ("pi-0", "pi-1", "pi-2"):
        journal.note_device(device, status="online")
    journal.add_failure(1, "pi-0", "of before")
    journal.add_failure(1, "pi-1", "disk full")
    journal.add_failure(2, "pi-2", "training diverged")
    journal.add_update(an_update("pi-0", 2))
    facts = fleet_status(config)
    assert facts["round"]["failed"] == {"pi-2": "training diverged"}
    assert [d["problem"] for d in facts["devices"]] == ["", "disk full", "training diverged"]


def test_before_the_first_start_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no journal; has the aggregator of this fleet been started"):
        fleet_status(load_fleet_config(write_fleet(tmp_path, BrokerConfig(), ["pi-0"])))


def test_it_tells_who_is_over_his_budget_as_long_as_the_service_runs(tmp_path: Path) -> None:
    config = load_fleet_config(write_fleet(tmp_path, BrokerConfig(), ["pi-0", "pi-1"]))
    config.state.mkdir()
    journal = Journal(config.state / "journal.db")
    for device in ("pi-0", "pi-1"):
        journal.note_device(device, status="online")
    journal.close()
    write_status(config.state, {"connected": True, "limited": {"pi-1": 300}})
    assert [device["limited"] for device in fleet_status(config)["devices"]] == [0, 0]
    with only_service(config.state):
        assert [device["limited"] for device in fleet_status(config)["devices"]] == [0, 300]
        write_status(config.state, {"limited": "nonsense"})
        assert [device["limited"] for device in fleet_status(config)["devices"]] == [0, 0]
