"""Metrics as Prometheus reads them, of a journal made by hand."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from aggregator.config.fleet import FleetConfig, load_fleet_config
from aggregator.monitoring.collector import fleet_registry
from aggregator.monitoring.live import Live, Snapshot
from aggregator.storage.journal import Journal
from aggregator.storage.rows import JobRow
from core.settings import replace
from tests.aggregator.journals import a_model, a_round, an_update, asked, digest
from tests.aggregator.scripted import FLEET, write_fleet
from transport.config import BrokerConfig
from wire.messages import Metrics

NOW = 1000.0
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def config(tmp_path: Path) -> FleetConfig:
    """Two rounds are over, a third is open; one device of four was never heard of."""
    config = load_fleet_config(write_fleet(tmp_path, BrokerConfig(), ["pi-0", "pi-1", "pi-2", "pi-3"]))
    config.state.mkdir()
    with closing(Journal(config.state / "journal.db")) as journal, journal.transaction():
        journal.add_model(a_model("old", "cnn:w1"))
        journal.add_model(a_model("new", "cnn:w1", 1, metrics={"accuracy": 0.5, "accuracy_float": 0.75}))
        journal.open_round(a_round(1, "closed", closed=41.0), asked("pi-0", model="old"))
        journal.add_report(1, {"devices": {}, "seconds": {"teach": 1.5, "distill": 2.0}})
        journal.open_round(a_round(2, "abandoned", closed=60.0), asked("pi-0", model="new"))
        journal.open_round(a_round(3, opened=900.0, deadline=1500.0), asked("pi-0", "pi-1", model="new"))
        journal.add_update(an_update("pi-0", 1))
        journal.add_update(an_update("pi-0", 3))
        journal.add_update(an_update("pi-1", 1, late=True))
        journal.note_device("pi-0", status="online", seen=990.0)
        journal.note_device("pi-1", status="lost", seen=700.0)
        journal.note_device("pi-2", status="online", seen=800.0, muted_until=NOW + 1)
        journal.count("pi-2", "refused", 7)
    return config


@pytest.fixture
def live() -> Live:
    live = Live(Snapshot(time=0.0, connected=True, phase="collecting", uploads=2, connections=3, limited=1))
    live.accepted("cnn:w1", 4000)
    live.measured("pi-0", Metrics(round=1, temperature_c=51.5, memory_mb=93.0, seconds=4.0))
    live.measured("gone", Metrics(round=1, temperature_c=99.0))
    return live


def registry(config: FleetConfig, live: Live) -> CollectorRegistry:
    return fleet_registry(lambda: config, live, version="1.2.3", now=lambda: NOW)


def samples(config: FleetConfig, live: Live) -> Samples:
    text = generate_latest(registry(config, live)).decode()
    families = text_string_to_metric_families(text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def value(found: Samples, name: str, **labels: str) -> float:
    return found[f"edgestill_{name}", frozenset(labels.items())]


def test_an_asynchronous_round_has_its_buffer_its_jobs_and_the_last_deadline(config: FleetConfig, live: Live) -> None:
    with closing(Journal(config.state / "journal.db")) as journal, journal.transaction():
        journal.set_round(3, phase="closed", closed=910.0, buffer=1)
        journal.open_round(a_round(4, opened=920.0, deadline=930.0, buffer=5), [])
        for number, device in enumerate(("pi-0", "pi-1", "pi-2"), start=1):
            job = {"version": 0, "prototype": "cnn:w1", "model": digest("new"), "side_artifact": None, "given": 1.0}
            journal.give_job(JobRow(number=number, round=3, device=device, deadline=2000.0 + number, **job))
        journal.add_update(an_update("pi-2", 3, job=3))
        journal.take(3, 1)
        journal.add_update(an_update("pi-1", 3, job=2))
    found = samples(config, live)
    about_round = ("invited", "answered", "deadline_timestamp_seconds", "staleness_versions")
    assert [value(found, f"round_{name}") for name in about_round] == [5, 1, 2001, 1]
    assert value(found, "jobs_open") == 1


def test_rounds_devices_and_updates_are_counted_from_the_journal(config: FleetConfig, live: Live) -> None:
    found = samples(config, live)
    assert value(found, "build_info", version="1.2.3", fleet=FLEET, recipe="fedavg") == 1
    assert [value(found, "rounds_total", outcome=outcome) for outcome in ("closed", "abandoned")] == [1, 1]
    assert {p: value(found, "round_phase", phase=p) for p in ("collecting", "fusing")} == {"collecting": 1, "fusing": 0}
    about_round = ("current", "invited", "answered", "opened_timestamp_seconds", "deadline_timestamp_seconds")
    assert [value(found, f"round_{name}") for name in about_round] == [3, 2, 1, 900, 1500]
    assert value(found, "round_duration_seconds") == 40
    assert [value(found, "fusion_stage_seconds", stage=stage) for stage in ("teach", "distill")] == [1.5, 2.0]
    states = {
        state: value(found, "devices", state=state) for state in ("online", "lost", "muted", "unknown", "revoked")
    }
    assert states == {"online": 1, "lost": 1, "muted": 1, "unknown": 1, "revoked": 0}
    outcomes = {outcome: value(found, "uploads_total", outcome=outcome) for outcome in ("accepted", "late", "refused")}
    assert outcomes == {"accepted": 2, "late": 1, "refused": 7}


def test_models_are_scored_as_boards_run_them_and_with_float_weights(config: FleetConfig, live: Live) -> None:
    found = samples(config, live)
    assert value(found, "prototype_round", prototype="cnn:w1") == 1
    of = {
        weights: value(found, "prototype_accuracy_ratio", prototype="cnn:w1", weights=weights)
        for weights in ("own", "float")
    }
    assert of == {"own": 0.5, "float": 0.75}


def test_the_service_tells_of_itself(config: FleetConfig, live: Live) -> None:
    found = samples(config, live)
    names = ("mqtt_connected", "mqtt_reconnects_total", "transfers_inflight", "devices_limited")
    assert [value(found, name) for name in names] == [1, 2, 2, 1]
    assert value(found, "upload_bytes_total", precision="w1") == 4000
    assert 0 < value(found, "state_disk_free_bytes") <= value(found, "state_disk_size_bytes")
    assert found["process_resident_memory_bytes", frozenset()] > 10**6


def test_devices_are_labels_up_to_a_limit(config: FleetConfig, live: Live) -> None:
    found = samples(config, live)
    assert value(found, "device_temperature_celsius", device="pi-0") == 51.5  # of an older agent, with its training
    boards = {
        "pi-0": {"time": NOW, "temperature_c": 61.5, "throttled": True, "memory_mb": 250.0, "battery": 0.5},
        "pi-1": {"time": NOW - 1e6, "temperature_c": 99.0, "throttled": True},  # long ago
    }
    (config.state / "telemetry.json").write_text(json.dumps(boards))
    found = samples(config, live)
    told = {"temperature_celsius": 61.5, "throttled": 1.0, "memory_available_bytes": 250e6, "battery_ratio": 0.5}
    assert {name: value(found, f"device_{name}", device="pi-0") for name in told} == told
    assert value(found, "devices_throttled") == 1
    assert not [labels for name, labels in found if "temperature" in name and ("device", "pi-1") in labels]
    assert value(found, "device_memory_bytes", device="pi-0") == 93e6
    assert value(found, "device_train_seconds", device="pi-0") == 4.0
    assert value(found, "device_seen_timestamp_seconds", device="pi-1") == 700.0
    assert not [labels for _, labels in found if ("device", "gone") in labels]  # no device of this fleet
    assert value(found, "device_labels_omitted") == 0
    few = replace(config, monitor=replace(config.monitor, device_labels=3))
    found = samples(few, live)
    assert not [labels for _, labels in found if dict(labels).get("device")]
    assert value(found, "device_labels_omitted") == 1


def test_a_name_that_is_markup_stays_a_name(config: FleetConfig, live: Live) -> None:
    with closing(Journal(config.state / "journal.db")) as journal:
        journal.add_model(a_model("x", 'a"}\n{b\\:fp32'))
    found = samples(config, live)
    assert value(found, "prototype_round", prototype='a"}\n{b\\:fp32') == 0


@pytest.fixture
def text(config: FleetConfig, live: Live) -> str:
    return open_metrics(registry(config, live)).decode()


def test_names_follow_the_conventions_of_prometheus(text: str) -> None:
    assert text.endswith("# EOF\n")
    own = [line.split() for line in text.splitlines() if line.startswith("# TYPE edgestill_")]
    assert len(own) > 20
    described = {line.split()[2] for line in text.splitlines() if line.startswith("# HELP")}
    assert {name for _, _, name, _ in own} <= described
    assert {kind for *_, kind in own} == {"counter", "gauge", "info"}
