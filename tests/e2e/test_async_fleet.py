"""Real agents in asynchronous rounds, which know nothing of them; the aggregator and an agent are killed anywhere."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.brokers import Broker
from tests.e2e.fleets import (
    assert_as_replayed,
    completed,
    config,
    fleet,
    make_asynchronous,
    run_with_crashes,
    wait_for_rounds,
)
from tests.e2e.test_mqtt_fleet import AGENT_POINTS, AGGREGATOR_POINTS

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.mark.parametrize("broker", ["mosquitto", "embedded"], indirect=True)
def test_agents_fill_buffers_and_the_models_learn(tmp_path: Path, broker: Broker) -> None:
    settings = config(4, devices=3, prototypes=("mlp:fp32",))
    settings = replace(settings, training=replace(settings.training, steps=20))
    with fleet(settings, tmp_path / "fleet", broker.config) as simulation:
        make_asynchronous(simulation, buffer=2)
        simulation.start_aggregator()
        for device in simulation.devices:
            simulation.start_agent(device.id)
        wait_for_rounds(simulation, 4)
        simulation.processes.stop()
        assert len(assert_as_replayed(simulation, 2)) >= 8
        with simulation.journal() as journal:
            assert journal is not None
            scores = [model.metrics["accuracy"] for model in journal.models()]
            assert max(tau for number in range(1, 5) for tau in journal.staleness(number).values()) > 0
        assert scores[-1] > 0.8 > scores[0]


@pytest.mark.parametrize("broker", ["mosquitto", "embedded"], indirect=True)
@pytest.mark.parametrize(
    ("victim", "points"), [("aggregator", [*AGGREGATOR_POINTS, "aggregator-job-given:2"]), ("sim-1", AGENT_POINTS)]
)
def test_killed_at_every_point_nothing_is_lost_and_nothing_counted_twice(
    tmp_path: Path, broker: Broker, victim: str, points: list[str]
) -> None:
    settings = config(30)
    with fleet(settings, tmp_path / "fleet", broker.config) as simulation:
        make_asynchronous(simulation, buffer=3, max_staleness=8)
        assert run_with_crashes(simulation, victim, points) == points
        order = assert_as_replayed(simulation, 3)
        assert 3 * completed(simulation) <= len(order)
        assert {device for device, _ in order} == {"sim-0", "sim-1"}
