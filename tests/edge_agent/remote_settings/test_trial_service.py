"""A running agent and settings from afar."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import Mosquitto, mosquitto  # noqa: F401
from tests.edge_agent.scripted import (
    ScriptedAggregator,
    make_artifact,
    make_job,
    start_agent,
    wait_for,
    write_device,
)
from wire.keys import load_private_key
from wire.messages import Reported


@pytest.fixture
def agents() -> Iterator[list[subprocess.Popen]]:
    """Processes that do not outlive the test."""
    started: list[subprocess.Popen] = []
    yield started
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait(120)


@pytest.mark.broker
def test_settings_are_applied_reported_and_rolled_back_when_the_child_cannot_train_with_them(
    mosquitto: Mosquitto,  # noqa: F811
    tmp_path: Path,
    agents: list[subprocess.Popen],
) -> None:
    config = write_device(tmp_path / "pi", mosquitto.port, "[train]\nnice = 0\n")
    state, digest_and_model = tmp_path / "pi" / "state", make_artifact()
    key = load_private_key(tmp_path / "pi" / "device.pem").public_key()
    with ScriptedAggregator(mosquitto.config, key) as aggregator:
        aggregator.desire(5, log__level="debug", keys__private="mine")
        agents.append(start_agent(config))
        wait_for(lambda: aggregator.of_kind(Reported))
        (report,) = aggregator.of_kind(Reported)
        assert (report.version, report.status, report.settings) == (5, "applied", {"log.level": "debug"})
        assert "whom it trusts" in report.refused["keys.private"]
        aggregator.desire(6, "pi-2", train__threads="9")  # another device's, put into this one's topic
        wait_for(lambda: "settings for 'pi-2', not for this device" in (tmp_path / "pi" / "agent.log").read_text())
        aggregator.desire(7, train__memory_mb="64")  # torch alone takes more
        wait_for(lambda: aggregator.of_kind(Reported)[-1].version == 7)
        aggregator.publish_model(digest_and_model[1])
        aggregator.instruct(make_job(digest_and_model[0]))
        wait_for(lambda: aggregator.of_kind(Reported)[-1].status == "rolled-back", 120)
        assert "the training child" in aggregator.of_kind(Reported)[-1].reason
        wait_for(lambda: list((state / "finished").glob("*.accepted")), 120)  # in the same round, with the old settings
        agents[0].send_signal(signal.SIGTERM)
        assert agents[0].wait(120) == 0
    assert json.loads((state / "settings.json").read_bytes())["settings"] == {"log.level": "debug"}
