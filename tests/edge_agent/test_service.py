"""The agent as a process on a real broker, with a tiny scripted aggregator at the other end."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.brokers import Broker
from tests.edge_agent.scripted import (
    PROTOTYPE,
    ScriptedAggregator,
    make_artifact,
    make_job,
    start_agent,
    wait_for,
    write_device,
)
from wire.keys import load_private_key
from wire.messages import About, Metrics, Offer


@pytest.fixture
def device(broker: Broker, tmp_path: Path) -> Path:
    return write_device(tmp_path / "pi", broker.port)


@pytest.fixture
def agents(device: Path) -> Iterator[list[subprocess.Popen]]:
    """Agents that a test starts; none outlives it."""
    started: list[subprocess.Popen] = []
    yield started
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait(10)


def key_of(device: Path):
    return load_private_key(device.parent / "device.pem").public_key()


def test_a_round_from_announcement_to_acceptance(broker: Broker, device: Path, agents: list) -> None:
    digest, sealed = make_artifact()
    state = device.parent / "state"
    with ScriptedAggregator(broker.config, key_of(device)) as aggregator:
        agents.append(start_agent(device))
        wait_for(lambda: aggregator.states() == ["online"] and aggregator.of_kind(About))
        assert aggregator.of_kind(About)[0].label_counts == (8, 8, 8)
        aggregator.publish_model(sealed)
        aggregator.instruct(make_job(digest))
        wait_for(lambda: list((state / "finished").iterdir()))
        header, tensors = aggregator.update()
        assert (header.round, header.num_examples, header.base) == (1, 24, digest)
        assert "predictor.weight" in tensors
        assert not list((state / "outbox").iterdir())
        assert (state / "current.onnx").exists()
        assert (state / "current.safetensors").exists()
        wait_for(lambda: any(m.round == 1 and m.train_loss for m in aggregator.of_kind(Metrics)))
        agents[0].send_signal(signal.SIGTERM)
        assert agents[0].wait(10) == 0
        wait_for(lambda: aggregator.states()[-1] == "offline")
