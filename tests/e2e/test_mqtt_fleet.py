"""Real agents, a real aggregator, a real broker: the same models as in one process, whoever is killed and when."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.brokers import Broker, Mosquitto
from tests.certificates import Authority
from tests.e2e.fleets import (
    assert_equal,
    config,
    finals,
    fleet,
    run_with_crashes,
    undisturbed,
    updates_by_round,
)

AGGREGATOR_POINTS = [
    "aggregator-started",
    "aggregator-round-opened",
    "aggregator-jobs-published",
    "aggregator-chunk-stored",
    "aggregator-blob-written",
    "aggregator-update-journaled",
    "aggregator-acked",
    "aggregator-all-answered",
    "aggregator-fused",
    "aggregator-round-committed",
    "aggregator-published",
]
AGENT_POINTS = [
    "agent-started",
    "agent-announced",
    "agent-job-received",
    "agent-model-chunk",
    "agent-model-fetched",
    "agent-training-started",
    "agent-update-spooled",
    "agent-chunk-sent",
    "agent-accepted",
    "agent-finished",
]


def check(victim: str, points: list[str], folder: Path, broker: Broker, rounds: int) -> None:
    settings = config(rounds)
    with fleet(settings, folder / "fleet", broker.config) as simulation:
        died = run_with_crashes(simulation, victim, points)
        assert died == points
        counted = updates_by_round(simulation)
        assert all(devices == ["sim-0", "sim-1"] for devices in counted.values()), counted
        assert_equal(finals(simulation), undisturbed(replace(settings, rounds=len(counted))))


@pytest.mark.broker
def test_a_fleet_over_tls_that_distills_gives_the_same_models(tmp_path: Path) -> None:
    """Teachers of both prototypes, a student of each, momentum that the aggregator remembers, and clipped gradients."""
    fusion = {"steps": 4, "check_every": 2, "batch_size": 8, "server_momentum": 0.3, "teach": "mean-logits"}
    settings = config(2, recipe="fedrad", fusion=fusion, source_size=12, attack="malicious@1")
    bounded = replace(settings.training, steps=None, epochs=2, least_steps=3, most_steps=4, clip=0.3)
    settings = replace(settings, training=bounded)
    with (
        Mosquitto(tmp_path / "broker", tls=Authority(tmp_path / "tls")) as broker,
        fleet(settings, tmp_path / "fleet", broker.config) as simulation,
    ):
        simulation.start_aggregator()
        for device in simulation.devices:
            simulation.start_agent(device.id)
        last = list(simulation.rounds())[-1]
        assert_equal(finals(simulation), undisturbed(settings))
        assert {p.distill_steps for p in last.prototypes.values()} == {4}
        assert all(report["score"] is not None and report["weight"] == 1.0 for report in last.devices.values())
        assert [file.name for file in (simulation.state / "memory").iterdir()] == ["1.safetensors", "2.safetensors"]


# A minute each, and so with `make test-slow`: the agent's and the aggregator's own tests kill them at these points too.
@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.parametrize("broker", ["mosquitto", "embedded"], indirect=True)
def test_an_aggregator_killed_at_every_point_loses_and_repeats_nothing(tmp_path: Path, broker: Broker) -> None:
    check("aggregator", AGGREGATOR_POINTS, tmp_path, broker, rounds=6)


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.parametrize("broker", ["embedded", "mosquitto"], indirect=True)
def test_an_agent_killed_at_every_point_sends_the_same_update_once(tmp_path: Path, broker: Broker) -> None:
    check("sim-1", AGENT_POINTS, tmp_path, broker, rounds=5)
