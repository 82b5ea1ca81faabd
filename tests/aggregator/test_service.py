"""The service as a process, on real brokers, with devices that follow the protocol: whole rounds, kills, refusals."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from itertools import dropwhile
from pathlib import Path

import numpy as np
import pytest

from aggregator.config.fleet import load_fleet_config
from aggregator.service import Service
from aggregator.storage.artifacts import open_artifact
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from core.errors import ConfigError
from tests.aggregator.running import NAMES, ROOT, Aggregator, Devices, command, fleet, wait_until
from tests.aggregator.scripted import Device, key_of, make_update, write_fleet
from tests.brokers import Mosquitto
from tests.rabbitmq import RabbitMQ
from transport.config import BrokerConfig
from wire.headers import decode_model, decode_update
from wire.keys import save_private_key
from wire.messages import Accepted, Job, Offer, Rejected, State
from wire.refusals import RefusalReason
from wire.tensors import decode

POINTS = [
    "aggregator-started",
    "aggregator-round-opened",
    "aggregator-jobs-published",
    "aggregator-chunk-stored:3",
    "aggregator-blob-written",
    "aggregator-update-journaled",
    "aggregator-acked",
    "aggregator-all-answered",
    "worker-fusing",
    "aggregator-fused",
    "aggregator-round-committed",
    "aggregator-published",
]

FEW = ["aggregator-chunk-stored:3", "worker-fusing"]  # what tests/e2e/ does not reach; all with `make test-slow`


def history(service: Aggregator) -> list[tuple[str, str, int]]:
    journal = service.journal()
    try:
        return [(m.digest, m.prototype, m.round) for m in journal.models()]
    finally:
        journal.close()


def test_a_fleet_does_its_rounds_and_every_device_gets_the_last_model(tmp_path: Path, broker, started: Path) -> None:
    with fleet(tmp_path, broker, started) as service, Devices(broker.config, NAMES) as devices:
        service.start("--until-done")
        assert service.wait() == 0
        last = {prototype: digest for digest, prototype, _ in history(service)}
        for device in devices:
            wait_until(lambda device=device: isinstance(device.instructions[-1], Offer))
            # who is heard before there are enough for a round is offered the first model until then
            since = dropwhile(lambda i: isinstance(i, Offer) and i.round == 0, device.instructions)
            assert [type(i) for i in since] == [Job, Job, Offer]
            assert device.instructions[-1].model == last[device.prototype]
            accepted = [a.round for a in device.answers if isinstance(a, Accepted)]
            assert list(dict.fromkeys(accepted)) == [1, 2]  # a device that waits for long asks again
    journal = service.journal()
    assert [(r.number, r.phase) for r in journal.rounds()] == [(2, "closed"), (1, "closed")]
    assert [u.device for u in journal.updates(2)] == NAMES
    journal.close()


def test_the_fused_model_is_the_example_weighted_mean_of_the_updates(tmp_path: Path, mosquitto, started: Path) -> None:
    """Devices add a number of their own to every tensor, so the mean of mlp:fp32 is start + the mean of the numbers."""
    with (
        fleet(tmp_path, mosquitto, started, round="!rounds = 1\nmin_devices = 3\ndeadline_s = 60") as service,
        Devices(mosquitto.config, NAMES) as devices,
    ):
        service.start("--until-done")
        assert service.wait() == 0
        shifts = [_shift(d) for d in devices if d.prototype == "mlp:fp32"]
    journal, blobs = service.journal(), Blobs(tmp_path / "state" / "blobs")
    start, fused = (decode(open_artifact(blobs.read(m.digest))[1]) for m in journal.models("mlp:fp32"))
    for name, before in start.items():
        np.testing.assert_allclose(fused[name], before + np.mean(shifts), rtol=1e-5, atol=1e-6)
    assert journal.models("mlp:fp32")[1].parents == (
        journal.models("mlp:fp32")[0].digest,
        *(u.digest for u in journal.updates(1) if u.prototype == "mlp:fp32"),
    )
    journal.close()


def _shift(device: Device) -> float:
    """What the device has added to every tensor."""
    job = next(i for i in device.instructions if isinstance(i, Job))
    artifact = device.model(job.model)
    sealed = make_update(device.device, job, artifact)
    body = decode_update(sealed[2 + sealed[1] : -64])[1]
    name = next(iter(decode(body)))
    return float((decode(body)[name] - decode(decode_model(artifact)[1])[name]).ravel()[0])


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.parametrize("points", [FEW, POINTS], ids=["few", "all"])
def test_killed_once_in_every_round_it_comes_to_the_same_models(
    tmp_path: Path, mosquitto, started: Path, points: list[str]
) -> None:
    rounds = f"!rounds = {len(points)}\nmin_devices = 3\ndeadline_s = 60"
    with fleet(tmp_path / "calm", mosquitto, started, round=rounds) as calm, Devices(mosquitto.config, NAMES):
        calm.start("--until-done")
        assert calm.wait() == 0
    with (
        Mosquitto(tmp_path / "another") as other,
        fleet(tmp_path / "rough", other, started, round=rounds) as rough,
        Devices(other.config, NAMES) as devices,
    ):
        for point in points:
            rough.start("--until-done", crash_at=point)
            if point == "worker-fusing":
                wait_until(lambda: "worker process was killed by SIGKILL" in rough.log.read_text(), 120)
                rough.end(signal.SIGKILL)
            assert rough.wait(120) == -signal.SIGKILL, point
        rough.start("--until-done")
        assert rough.wait(120) == 0
        for device in devices:
            accepted = {a.round for a in device.answers if isinstance(a, Accepted)}
            assert accepted == set(range(1, len(points) + 1))
            assert not [a for a in device.answers if isinstance(a, Rejected)]
    assert history(rough) == history(calm)
    journal = rough.journal()
    assert [len(journal.updates(n)) for n in range(1, len(points) + 1)] == [3] * len(points)
    journal.close()


ONE = "!rounds = 1\nmin_devices = {n}\ndeadline_s = {s}\nquorum = 0.5"


def wrong_shape(device: str, job: Job, artifact: bytes) -> bytes:
    return make_update(device, job, artifact, tensors={"predictor.bias": np.zeros(7, np.float32)})


@pytest.mark.broker
def test_a_bad_update_is_answered_with_its_reason_and_the_round_goes_on(
    tmp_path: Path, mosquitto, started: Path
) -> None:
    with (
        fleet(tmp_path, mosquitto, started, round=ONE.format(n=3, s=3)) as service,
        Devices(mosquitto.config, NAMES) as devices,
    ):
        devices[0].make = wrong_shape
        service.start("--until-done")
        assert service.wait() == 0
        (refusal,) = [a for a in devices[0].answers if isinstance(a, Rejected)]
        assert (refusal.round, refusal.why) == (1, RefusalReason.UNSOUND)
        assert refusal.reason.endswith("is missing; is it on this prototype?")
    journal = service.journal()
    assert [u.device for u in journal.updates(1)] == ["pi-1", "pi-2"]
    assert {d.id: (d.accepted, d.refused) for d in journal.devices()} == {
        "pi-0": (0, 1),
        "pi-1": (1, 0),
        "pi-2": (1, 0),
    }
    journal.close()


@pytest.mark.broker
def test_commands_of_another_process_are_obeyed(tmp_path: Path, mosquitto, started: Path) -> None:
    """Revoke takes a device out of the open round, stop ends it, rollback is offered like a new model."""
    with (
        fleet(tmp_path, mosquitto, started, round=ONE.format(n=3, s=600)) as service,
        Devices(mosquitto.config, NAMES) as devices,
    ):
        devices[0].busy = devices[1].busy = False
        service.start()
        service.until(lambda journal: bool(journal.updates(1)))
        assert command(service, "revoke", "pi-1") == "revoked"
        wait_until(lambda: devices[1].instructions[-1] is None)
        assert command(service, "pause") == "paused"
        devices[0].busy = True
        service.until(lambda journal: journal.completed() == 1)
        journal = service.journal()
        assert [i.device for i in journal.invitations(1)] == ["pi-0", "pi-2"]
        start, fused = journal.models("mlp:fp32")
        journal.close()
        wait_until(lambda: devices[0].instructions[-1].model == fused.digest)
        digest = command(service, "rollback", start.digest)
        wait_until(lambda: devices[0].instructions[-1].model == digest)
        told = devices[0].instructions[-1]
        assert (type(told), told.round, told.device) == (Offer, 1, "pi-0")
        assert told.number > fused.number  # a device that has the newer model follows all the same
        wait_until(lambda: devices[0].model(digest) is not None)
        assert command(service, "rollback", "nonsense").startswith("error: no model called 'nonsense'")
        assert command(service, "stop") == "stopped"
        assert service.end() == 0


@pytest.mark.broker
def test_a_broker_that_has_forgotten_everything_is_told_everything_again(
    tmp_path: Path, mosquitto, started: Path
) -> None:
    with (
        fleet(tmp_path, mosquitto, started, round=ONE.format(n=3, s=600)) as service,
        Devices(mosquitto.config, NAMES) as devices,
    ):
        for device in devices:
            device.busy = False
        service.start("--until-done")
        wait_until(lambda: all(d.instructions and d.model(d.instructions[-1].model) for d in devices), 120)
        mosquitto.kill()
        for device in devices:
            device.instructions.clear()
            device._models.clear()
            device.busy = True
        mosquitto.start()
        assert service.wait() == 0
        assert all(isinstance(a, Accepted) for d in devices for a in d.answers[-1:])


def statuses(service: Aggregator) -> dict[str, str]:
    journal = service.journal()
    try:
        return {row.id: row.status for row in journal.devices()}
    finally:
        journal.close()


def asked(service: Aggregator) -> list[str]:
    """The devices of round 1, once it is open."""
    service.until(lambda journal: journal.last_round() is not None)
    journal = service.journal()
    try:
        return [invitation.device for invitation in journal.invitations(1)]
    finally:
        journal.close()


def test_a_restarted_aggregator_does_not_ask_a_device_that_was_lost_meanwhile(
    tmp_path: Path, broker, started: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = "!rounds = 1\nmin_devices = {n}\ndeadline_s = 600"
    with fleet(tmp_path, broker, started, round=few.format(n=4)) as service, Devices(broker.config, NAMES) as devices:
        service.start()
        wait_until(lambda: statuses(service) == dict.fromkeys(NAMES, "online"), 60)
        assert service.end() == 0
        monkeypatch.setattr(devices[0], "_contradict", lambda payload: None)
        lost = devices[0]._sealed("state", State(status="lost", session=1))  # as the broker publishes its will
        assert devices[0].link.publish(devices[0]._topic("state"), lost, retain=True)
        wait_until(lambda: not devices[0].link.pending())
        devices[0].end()
        write_fleet(tmp_path, broker.config, NAMES, round=few.format(n=2))
        service.start()
        assert asked(service) == NAMES[1:]
        wait_until(lambda: statuses(service) == {"pi-0": "lost", "pi-1": "online", "pi-2": "online"}, 30)


def test_a_device_that_died_with_its_broker_is_not_asked(tmp_path: Path, broker, started: Path) -> None:
    """No will is published, and the broker forgets the retained state: nobody says that the device is gone."""
    if isinstance(broker, RabbitMQ):
        pytest.skip(
            "RabbitMQ keeps the retained state on its disk: the device counts as online until a round's deadline"
        )
    few = "!rounds = 1\nmin_devices = 2\ndeadline_s = 600"
    with fleet(tmp_path, broker, started, round=few) as service, Devices(broker.config, NAMES) as devices:
        journal = Journal(tmp_path / "state/journal.db")
        journal.put("hold", "paused")
        journal.close()
        service.start()
        wait_until(lambda: statuses(service) == dict.fromkeys(NAMES, "online"), 60)
        # a broker that is stopped in order may still publish the will; the embedded one cannot be killed
        killed = isinstance(broker, Mosquitto)
        broker.kill() if killed else broker.stop()
        devices[0].end()
        broker.start()
        wait_until(lambda: statuses(service)["pi-0"] in (["unknown"] if killed else ["unknown", "lost"]), 60)
        wait_until(lambda: all(device.link.connected for device in devices[1:]), 60)
        assert command(service, "resume") == "running"
        assert asked(service) == NAMES[1:]


@pytest.mark.broker
def test_sigterm_in_the_middle_of_a_round_ends_cleanly_and_the_round_goes_on(
    tmp_path: Path, mosquitto, started: Path
) -> None:
    with (
        fleet(tmp_path, mosquitto, started, round=ONE.format(n=3, s=600)) as service,
        Devices(mosquitto.config, NAMES) as devices,
    ):
        devices[0].busy = False
        service.start("--until-done")
        service.until(lambda journal: len(journal.updates(1)) == 2)
        assert service.end(signal.SIGTERM) == 0
        devices[0].busy = True
        service.start("--until-done")
        assert service.wait() == 0
        service.until(lambda journal: len(journal.updates(1)) == 3)


@pytest.mark.light
def test_the_service_imports_no_torch_and_no_onnx() -> None:
    code = "import sys, aggregator.service; print([m for m in ('torch', 'onnx', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_another_signing_key_is_refused_unless_the_fleet_has_been_given_it(tmp_path: Path, started: Path) -> None:
    path = write_fleet(tmp_path, BrokerConfig(), NAMES)
    shutil.copytree(started, tmp_path / "state")
    save_private_key(key_of("somebody"), tmp_path / "aggregator.key")
    with pytest.raises(ConfigError, match=r"not the key that signed this fleet's models .*; put that one back"):
        Service(load_fleet_config(path))
    Service(load_fleet_config(path), new_key=True)._end()
    Service(load_fleet_config(path))._end()  # it is the fleet's from here on


def test_a_state_folder_of_another_fleet_is_refused(tmp_path: Path, started: Path) -> None:
    path = write_fleet(tmp_path, BrokerConfig(), NAMES, fleet='!id = "another"')
    shutil.copytree(started, tmp_path / "state")
    with pytest.raises(ConfigError, match="belongs to fleet 'test-fleet'; give fleet 'another' a folder of its own"):
        Service(load_fleet_config(path))
