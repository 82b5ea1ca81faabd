"""What a simulated device sent, as the aggregator reads it."""

from __future__ import annotations

import pytest
import torch

from fleet.engines.base import Task
from fleet.simulation.simulation import Simulation
from tests.fleet.simulation.test_simulation import CONFIG, toy
from wire.envelope import seal


@pytest.mark.parametrize("number", [1, 1000])
def test_an_update_is_as_large_as_in_an_envelope_of_its_device(number: int) -> None:
    """Simulated messages have none; their sizes are those of messages over MQTT."""
    messages = []
    with Simulation(CONFIG, toy()) as simulation:
        train = simulation.engine.train

        def spied(batches, read):  # type: ignore[no-untyped-def]
            def reading(task: Task, answer):  # type: ignore[no-untyped-def]
                messages.append((simulation.devices[task.device], bytes(answer.message)))
                return read(task, answer)

            return train(batches, reading)

        simulation.engine.train = spied  # type: ignore[method-assign]
        result = simulation.run_round(number)
    sealed = [
        seal(message, key=device.key, kind="update", sender=device.id, fleet="simulated", round=number)
        for device, message in messages
    ]
    assert len(messages) > 1
    assert sum(p.bytes_up for p in result.prototypes.values()) == sum(map(len, sealed))
    assert all(torch.isfinite(w).all() for group in simulation.groups for w in group.state.values())
