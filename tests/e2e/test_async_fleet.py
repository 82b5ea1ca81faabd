"""Real agents in asynchronous rounds, which know nothing of them."""

from pathlib import Path

import numpy as np
import pytest

from aggregator.storage.artifacts import open_artifact
from aggregator.storage.blobs import Blobs
from fleet.mqtt.fleet import MqttSimulation
from tests.aggregator.replayed import accepted, replay
from tests.brokers import Broker
from tests.e2e.fleets import config, fleet, wait_for_rounds
from wire.tensors import decode

SPEC = ((1, 8, 8), 3, 8)


def asynchronous(**rules: object) -> dict[str, str]:
    """The environment of an aggregator with asynchronous rounds."""
    rules = {"mode": "async", **rules}
    return {f"EDGESTILL_AGGREGATOR_ROUND_{name.upper()}": str(value) for name, value in rules.items()}


def assert_as_replayed(simulation: MqttSimulation, buffer: int) -> None:
    """Every published model is what virtual time makes of the accepted updates, bit by bit."""
    blobs = Blobs(simulation.state / "blobs")
    with simulation.journal() as journal:
        assert journal is not None
        closed = [row.number for row in reversed(journal.rounds()) if row.phase == "closed"]
        digests = {(m.round, m.prototype): m.digest for m in journal.models() if m.origin == "fused"}
    versions = replay(simulation.state, SPEC, buffer)
    assert len(versions) == len(closed) > 0
    for version, models in versions.items():
        for name, tensors in models.items():
            found = decode(open_artifact(blobs.read(digests[closed[version - 1], name]))[1])
            for key, tensor in tensors.items():
                assert np.asarray(found[key]).tobytes() == np.asarray(tensor).tobytes(), f"{version} {name} {key}"


@pytest.mark.broker
@pytest.mark.parametrize("broker", ["mosquitto", "embedded"], indirect=True)
def test_agents_fill_buffers_and_the_models_learn(tmp_path: Path, broker: Broker) -> None:
    settings = config(8, devices=3, prototypes=("mlp:fp32",))
    with fleet(settings, tmp_path / "fleet", broker.config) as simulation:
        rules = asynchronous(buffer=2, min_devices=1)
        simulation.start_aggregator(**rules, EDGESTILL_AGGREGATOR_STATE_KEEP_ROUNDS="100")
        for device in simulation.devices:
            simulation.start_agent(device.id)
        wait_for_rounds(simulation, 8)
        simulation.processes.stop()
        with simulation.journal() as journal:
            assert journal is not None
            first, last = journal.models()[0], journal.models()[-1]
            jobs = [job for _, job in accepted(journal)]
        assert last.metrics["accuracy"] > 0.9 > first.metrics["accuracy"]
        assert len(set(jobs)) == len(jobs) >= 16
        assert_as_replayed(simulation, 2)
