"""The agent as a process on a real broker, with a tiny scripted aggregator at the other end."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.errors import ConfigError
from edge_agent.config import read_agent_config
from edge_agent.protocol.agent import Phase
from edge_agent.service import Service
from edge_agent.state.store import Store
from tests.brokers import Broker, Mosquitto
from tests.edge_agent.devices import same, twin_update
from tests.edge_agent.scripted import (
    DEVICE,
    DIGEST,
    EPOCH,
    FLEET,
    PROTOTYPE,
    SEALED,
    ScriptedAggregator,
    make_artifact,
    make_job,
    make_offer,
    start_agent,
    used,
    wait_for,
    write_device,
)
from wire.keys import load_private_key
from wire.messages import About, Hyper, Metrics, State
from wire.topics import DeviceTopic

Start = Callable[..., subprocess.Popen]
ENDLESS = Hyper(batch_size=4, lr=1e-4, steps=10**9)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "pi"


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Starts the agent of `folder`; none outlives the test."""
    started: list[subprocess.Popen] = []

    def begin(**environment: str) -> subprocess.Popen:
        started.append(start_agent(folder / "agent.toml", **environment))
        return started[-1]

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait(120)


def aggregator_for(broker: Broker, folder: Path, extra: str = "") -> ScriptedAggregator:
    write_device(folder, broker.port, extra)
    return ScriptedAggregator(broker.config, load_private_key(folder / "device.pem").public_key())


def finished(folder: Path) -> list[str]:
    return sorted(path.suffix for path in (folder / "state" / "finished").glob("*"))


def log_of(folder: Path) -> str:
    return (folder / "agent.log").read_text()


def end(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0


def children(process: subprocess.Popen) -> list[int]:
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in path.read_text().split()]


def test_a_round_from_announcement_to_acceptance(broker: Broker, folder: Path, start: Start) -> None:
    digest, sealed = make_artifact()
    state = folder / "state"
    with aggregator_for(broker, folder) as aggregator:
        process = start()
        wait_for(lambda: aggregator.states() == ["online"] and aggregator.of_kind(About))
        assert aggregator.of_kind(About)[0].label_counts == (8, 8, 8)
        aggregator.publish_model(sealed)
        job = make_job(digest)
        aggregator.instruct(job)
        wait_for(lambda: finished(folder) == [".accepted"])
        header, tensors = aggregator.update()
        assert (header.round, header.num_examples, header.base) == (1, 24, digest)
        assert same(tensors, twin_update(folder / "samples.npz", sealed, job))
        assert not list((state / "outbox").iterdir())
        assert json.loads((state / "current.json").read_text())["round"] == 1
        assert (state / "current.onnx").exists()
        assert (state / "current.safetensors").exists()
        wait_for(lambda: any(m.round == 1 and m.train_loss for m in aggregator.of_kind(Metrics)))
        end(process)
        wait_for(lambda: aggregator.states()[-1] == "offline")


POINTS = [
    "agent-started",
    "agent-announced",
    "agent-job-received",
    "agent-followed",
    "agent-model-chunk:3",
    "agent-model-fetched",
    "agent-training-started",
    "agent-update-spooled",
    "agent-chunk-sent:2",
    "agent-accepted",
    "agent-finished",
]


@pytest.mark.slow
@pytest.mark.parametrize("broker", ["embedded", "mosquitto"], indirect=True)
def test_killed_at_every_point_in_turn_the_round_ends_with_the_one_right_update(
    broker: Broker, folder: Path, start: Start
) -> None:
    digest, sealed = make_artifact()
    job = make_job(digest)
    with aggregator_for(broker, folder) as aggregator:
        aggregator.publish_model(sealed)
        aggregator.instruct(job)
        for point in POINTS:
            assert start(EDGESTILL_CRASH_AT=point).wait(120) == -signal.SIGKILL, f"{point} was not reached"
        process = start()
        last = State(status="online", session=len(POINTS) + 1)  # every start was counted
        wait_for(lambda: last in aggregator.heard)
        assert finished(folder) == [".accepted"]
        assert not list((folder / "state" / "outbox").iterdir())
        assert same(aggregator.update()[1], twin_update(folder / "samples.npz", sealed, job))
        end(process)


@pytest.mark.broker
@pytest.mark.slow
def test_killed_at_every_step_into_a_new_epoch_the_agent_follows_it_with_nothing_of_the_old_one(
    mosquitto: Mosquitto, folder: Path, start: Start
) -> None:
    """An update of round 1 waits in the outbox; the new epoch begins with round 1 and the same model."""
    used(folder, mosquitto.port)
    outbox = folder / "state" / "outbox"
    job = make_job(DIGEST, 1, epoch=EPOCH + 1)
    device = load_private_key(folder / "device.pem").public_key()
    with ScriptedAggregator(mosquitto.config, device) as aggregator:
        (old,) = (spooled.transfer for spooled in Store(folder / "state", prototype=PROTOTYPE).outbox())
        aggregator.deaf_to.add(old)
        aggregator.publish_model(SEALED)
        aggregator.instruct(job)
        for point in ("agent-job-received", "agent-epoch-forgotten", "agent-followed", "agent-training-started"):
            assert start(EDGESTILL_CRASH_AT=point).wait(120) == -signal.SIGKILL, f"{point} was not reached"
        process = start()
        wait_for(lambda: finished(folder) == [".accepted"])
        assert not list(outbox.iterdir())
        assert same(aggregator.update()[1], twin_update(folder / "samples.npz", SEALED, job))
        said = [line for line in log_of(folder).splitlines() if "begun anew" in line]
        assert said, log_of(folder)
        assert "1 updates of the older epoch are dropped" in said[0]
        aggregator.instruct(make_job(DIGEST, 2))  # of the old epoch
        wait_for(lambda: "job refused: its epoch" in log_of(folder))
        wait_for(lambda: any("refused" in (m.problem or "") for m in aggregator.of_kind(Metrics)))
        end(process)
        assert log_of(folder).count("refused") == 1


@pytest.mark.broker
def test_a_new_epoch_ends_the_training_of_the_old_one_at_once(mosquitto: Mosquitto, folder: Path, start: Start) -> None:
    digest, sealed = make_artifact()
    with aggregator_for(mosquitto, folder) as aggregator:
        aggregator.publish_model(sealed)
        aggregator.instruct(make_job(digest, 9, hyper=ENDLESS))
        process = start()
        wait_for(lambda: "training in process" in log_of(folder))
        (child,) = children(process)
        aggregator.instruct(make_job(digest, 1, epoch=EPOCH + 1, hyper=ENDLESS))
        wait_for(lambda: log_of(folder).count("training in process") == 2, 120)
        assert _gone(child)
        end(process)


@pytest.mark.broker
def test_an_idle_agent_is_light_and_shrugs_off_nonsense(
    mosquitto: Mosquitto, folder: Path, start: Start, tmp_path: Path
) -> None:
    digest, _ = make_artifact()
    with (
        aggregator_for(mosquitto, folder) as aggregator,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd,
    ):
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(120)
        process = start(NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="200000")
        assert systemd.recv(100) == b"READY=1"
        heard: set[bytes] = set()
        while not heard >= {b"WATCHDOG=1", f"STATUS=connected to 127.0.0.1:{mosquitto.port}".encode()}:
            heard.add(systemd.recv(100))
        wait_for(lambda: aggregator.states() == ["online"])
        for leaf in ("job", "ack"):
            aggregator._link.publish(str(DeviceTopic(FLEET, DEVICE, leaf)), b"nonsense")
        aggregator.instruct(make_job(digest, prototype="cnn:w1"))
        wait_for(lambda: aggregator.of_kind(Metrics))  # the refusal is reported
        assert "this device has mlp:fp32; refused" in log_of(folder)
        assert log_of(folder).count("too short to hold a signature") == 2
        maps = Path(f"/proc/{process.pid}/maps").read_text()
        assert "libtorch" not in maps
        assert "numpy" not in maps
        assert "pydantic" not in maps
        status = Path(f"/proc/{process.pid}/status").read_text()
        rss = int(status.split("VmRSS:")[1].split()[0]) / 1024
        assert rss < 60, f"an idle agent has {rss:.0f} MB"  # 38 measured
        end(process)
        told = b""
        while told != b"STOPPING=1":
            told = systemd.recv(100)


@pytest.mark.broker
def test_a_child_that_crashes_is_reported_and_tried_again(mosquitto: Mosquitto, folder: Path, start: Start) -> None:
    digest, sealed = make_artifact()
    with aggregator_for(mosquitto, folder) as aggregator:
        aggregator.publish_model(sealed)
        aggregator.instruct(make_job(digest))
        start(EDGESTILL_CRASH_AT="child-trained")
        wait_for(lambda: finished(folder) == [".accepted"])
        assert "attempt 1: the training child was killed by SIGKILL" in log_of(folder)


@pytest.mark.broker
def test_a_kill_ends_the_child_too_and_the_will_is_heard(mosquitto: Mosquitto, folder: Path, start: Start) -> None:
    digest, sealed = make_artifact()
    with aggregator_for(mosquitto, folder) as aggregator:
        aggregator.publish_model(sealed)
        aggregator.instruct(make_job(digest, hyper=ENDLESS))
        process = start()
        wait_for(lambda: process.poll() is None and "training in process" in log_of(folder) and children(process))
        (child,) = children(process)
        process.kill()
        process.wait(120)
        wait_for(lambda: _gone(child), 120)
        wait_for(lambda: aggregator.states()[-1] == "lost", 120)


@pytest.mark.broker
def test_terminated_while_training_it_ends_cleanly_and_a_withdrawn_job_is_dropped(
    mosquitto: Mosquitto, folder: Path, start: Start
) -> None:
    digest, sealed = make_artifact()
    with aggregator_for(mosquitto, folder) as aggregator:
        aggregator.publish_model(sealed)
        aggregator.instruct(make_job(digest, hyper=ENDLESS))
        process = start()
        wait_for(lambda: "training in process" in log_of(folder))
        aggregator.instruct(None)
        wait_for(lambda: "training is stopped" in log_of(folder) and not children(process))
        aggregator.instruct(make_job(digest, 2, hyper=ENDLESS))
        wait_for(lambda: log_of(folder).count("training in process") == 2)
        end(process)
        wait_for(lambda: aggregator.states()[-1] == "offline")
        assert aggregator.updates == {}


@pytest.mark.broker
def test_an_update_outlives_the_broker_and_the_agent(mosquitto: Mosquitto, folder: Path, start: Start) -> None:
    digest, sealed = make_artifact()
    with aggregator_for(mosquitto, folder) as aggregator:
        aggregator.publish_model(sealed)
        aggregator.instruct(make_job(digest))
        process = start()
        wait_for(lambda: "training in process" in log_of(folder))
        mosquitto.kill()
        wait_for(lambda: list((folder / "state" / "outbox").iterdir()))
        end(process)
        assert len(list((folder / "state" / "outbox").iterdir())) == 1
        mosquitto.start()
        start()
        wait_for(lambda: finished(folder) == [".accepted"])
        assert len(aggregator.updates) == 1


@pytest.mark.broker
def test_an_offer_is_taken_and_a_rejected_update_is_not_sent_again(
    mosquitto: Mosquitto, folder: Path, start: Start
) -> None:
    digest, sealed = make_artifact()
    with aggregator_for(mosquitto, folder) as aggregator:
        aggregator.accept = False
        aggregator.publish_model(sealed)
        start()
        aggregator.instruct(make_offer(digest))
        wait_for(lambda: (folder / "state" / "taken").exists())
        assert (folder / "state" / "current.onnx").exists()
        aggregator.instruct(make_job(digest))
        wait_for(lambda: finished(folder) == [".rejected"])
        assert "rejected: late" in log_of(folder)


def test_a_job_for_another_device_is_not_this_ones_whatever_the_broker_delivers(folder: Path) -> None:
    config = write_device(folder, 1)
    service = Service(read_agent_config(config))
    digest, _ = make_artifact()
    sealed = ScriptedAggregator.sealed(make_job(digest), "job")
    for topic in (f"edgestill/1/{FLEET}/pi-2/job", f"edgestill/1/other/{DEVICE}/job"):
        service._receive(topic, sealed)
        assert service._agent.phase is Phase.IDLE
    service._receive(f"edgestill/1/{FLEET}/{DEVICE}/job", sealed)
    assert service._agent.phase is Phase.FETCHING
    service.store.close()


def test_what_is_wrong_at_the_start_is_told_in_one_line(folder: Path) -> None:
    config = write_device(folder, 1)
    os.chmod(folder / "device.pem", 0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        Service(read_agent_config(config))
    process = start_agent(config)
    assert process.wait(120) == ConfigError.exit_code
    assert log_of(folder).count("\n") == 1


def test_missing_samples_are_waited_for(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "edgestill")
    config = write_device(folder, 1)
    (folder / "samples.npz").unlink()
    service = Service(read_agent_config(config))
    assert f"waiting for samples in {folder}/samples.npz: 0 of 1" in caplog.text
    service.store.close()


def _gone(pid: int) -> bool:
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True
