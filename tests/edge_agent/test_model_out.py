"""The agent's model for applications, over a real broker: published after a round, and asked for predictions."""

import hashlib
import json
import subprocess
import time
from pathlib import Path

import numpy as np

from edge_agent.predict.model import Model
from tests.brokers import Broker
from tests.edge_agent.predict.http_calls import npy
from tests.edge_agent.scripted import (
    DEVICE,
    FLEET,
    SHAPE,
    ScriptedAggregator,
    make_artifact,
    make_offer,
    start_agent,
    wait_for,
    write_device,
)
from transport.config import BrokerConfig
from transport.link import Connected, Link, Received
from wire.keys import load_private_key
from wire.topics import DeviceTopic

EXTRA = """
[predict]
mqtt = true
"""
ASK, ANSWERS = (str(DeviceTopic(FLEET, DEVICE, leaf)) for leaf in ("predict", "predicted"))


def answered(link: Link, request: bytes, seconds: float = 120) -> dict:
    """The answer to this request, which is sent again: at QoS 0 one gets lost when a connection breaks."""
    until, again = time.monotonic() + seconds, 0.0
    while time.monotonic() < until:
        if time.monotonic() >= again:
            link.publish(ASK, request, qos=0)
            again = time.monotonic() + 10
        match link.next_event(1.0):
            case Received(topic, payload, False) if topic == ANSWERS:
                answer = json.loads(payload)
                if answer["request"] == hashlib.sha256(request).hexdigest()[:16]:
                    return answer
    raise AssertionError("no answer")


def test_an_offered_model_is_published_and_answers_requests(broker: Broker, tmp_path: Path) -> None:
    folder = tmp_path / "pi"
    config = write_device(folder, broker.port, EXTRA)
    config.write_text(config.read_text().replace("[model]", f'[model]\npublish = "{tmp_path / "out"}"'))
    digest, sealed = make_artifact()
    key = load_private_key(folder / "device.pem").public_key()
    with ScriptedAggregator(BrokerConfig(port=broker.port), key) as aggregator:
        process = start_agent(config)
        try:
            wait_for(lambda: aggregator.states() == ["online"])
            with Link(BrokerConfig(port=broker.port), client_id="application", filters=[ANSWERS]) as link:
                while not isinstance(link.next_event(5.0), Connected):
                    pass
                x = npy(np.zeros((2, *SHAPE), np.float32))
                assert "there is no model yet" in answered(link, x)["error"]
                aggregator.publish_model(sealed)
                aggregator.instruct(make_offer(digest))
                wait_for(lambda: (tmp_path / "out" / "current.json").exists())
                assert Model(tmp_path / "out").card.base == digest
                answer = answered(link, x)
                assert len(answer["predictions"]) == 2
                assert answer["prototype"] == "mlp:fp32"
                assert "not an .npy file, and not a readable picture" in answered(link, b"garbage")["error"]
                assert worker_of(process) is not None
        finally:
            process.terminate()
            assert process.wait(120) == 0
    assert worker_of(process) is None


def worker_of(process: subprocess.Popen) -> int | None:
    """The process that predicts for the agent, if there is one."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"edge_agent.predict.worker" in words and str(process.pid).encode() in words:
            return int(path.parent.name)
    return None
