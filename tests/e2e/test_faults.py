"""A bad link between agents and broker: cuts, duplicates, swapped packets. Nothing is lost, nothing counted twice."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fleet.data import Dataset
from fleet.mqtt.fleet import MqttSimulation
from tests.brokers import Broker
from tests.e2e.fleets import assert_equal, config, finals, fleet, undisturbed, updates_by_round, wait_for_rounds
from tests.proxy import Proxy


@pytest.mark.broker
@pytest.mark.slow
def test_ten_rounds_over_a_link_that_cuts_repeats_and_reorders(tmp_path: Path, broker: Broker) -> None:
    settings = config(10)
    with (
        Proxy(broker.port, cut_chance=0.03, duplicate=0.2, swap=0.2, delay_s=0.002) as proxy,
        fleet(settings, tmp_path / "fleet", broker.config) as simulation,
    ):
        simulation.start_aggregator()
        for device in simulation.devices:
            simulation.start_agent(device.id, EDGESTILL_BROKER_PORT=str(proxy.port))
        wait_for_rounds(simulation, 10)
        assert proxy.cuts >= 5
        assert proxy.duplicates > 0
        assert all(devices == ["sim-0", "sim-1"] for devices in updates_by_round(simulation).values())
        assert_equal(finals(simulation), undisturbed(settings))


def large(side: int) -> Dataset:
    """A dozen square images; at 250 pixels a side an `mlp` has 12.5 million parameters, 50 MB."""
    rng = np.random.default_rng(0)
    x = rng.integers(256, size=(16, 1, side, side), dtype=np.uint8)
    y = np.arange(16, dtype=np.int64) % 2
    return Dataset(
        name="large",
        kind="image",
        x_train=x[:12],
        y_train=y[:12],
        x_test=x[12:],
        y_test=y[12:],
        class_names=("a", "b"),
        mean=(128.0,),
        std=(64.0,),
    )


@pytest.mark.broker
@pytest.mark.parametrize(
    ("broker", "side", "megabytes"),
    [
        pytest.param("mosquitto", 138, 15, marks=pytest.mark.slow),
        pytest.param("mosquitto", 250, 50, marks=pytest.mark.slow),
        pytest.param("embedded", 250, 50, marks=pytest.mark.slow),
    ],
    indirect=["broker"],
)
def test_a_large_update_over_a_link_cut_every_five_megabytes_costs_a_tenth_more_at_most(
    tmp_path: Path, broker: Broker, side: int, megabytes: int
) -> None:
    settings = replace(config(1), devices=1, prototypes=("mlp:fp32",), partition="iid")
    simulation = MqttSimulation(settings, large(side), tmp_path / "fleet", broker.config)
    simulation.write_files()
    with Proxy(broker.port, cut_every=5_000_000) as proxy:
        try:
            simulation.start_aggregator()
            simulation.start_agent("sim-0", EDGESTILL_BROKER_PORT=str(proxy.port))
            wait_for_rounds(simulation, 1)
        finally:
            simulation.processes.stop()
        with simulation.journal() as journal:
            assert journal is not None
            (update,) = journal.updates(1)
        assert update.size > megabytes * 1_000_000
        assert proxy.cuts >= 0.3 * megabytes  # a fifth of it on the way up, and as many while the model came down
        assert proxy.bytes_up < 1.1 * update.size
