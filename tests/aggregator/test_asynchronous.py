"""Asynchronous rounds of the service: the models of virtual time, whoever is late, and whoever is killed when."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from aggregator.config.fleet import load_fleet_config
from aggregator.status import fleet_status
from aggregator.storage.artifacts import open_artifact
from aggregator.storage.blobs import Blobs
from quant.delta import encode_delta
from tests.aggregator.replayed import accepted, replay
from tests.aggregator.running import NAMES, Aggregator, Devices, fleet, wait_until
from tests.aggregator.scripted import Device, make_update, write_fleet
from tests.aggregator.test_service import POINTS, history
from tests.brokers import Mosquitto
from transport.config import BrokerConfig
from wire.headers import decode_model
from wire.ids import digest_of
from wire.messages import Accepted, Ack, Job, Offer, Rejected
from wire.tensors import decode

TABLE = '!mode = "async"\nbuffer = 2\nrounds = {rounds}\nmin_devices = {least}\ndeadline_s = {deadline}'
KEPT = {"state": "keep_rounds = 1000"}
SPEC = ((1, 8, 8), 3, 8)
#: Who answers when: pi-1 is slow, pi-0 answers twice in a row.
ORDER = ["pi-0", "pi-0", "pi-2", "pi-0", "pi-2", "pi-0", "pi-1", "pi-2"]


def trained(device: str, job: Job, artifact: bytes) -> bytes:
    """An update that depends on every field of the job; pi-2 sends differences."""
    body = decode_model(artifact)[1]
    base = {name: np.asarray(tensor) for name, tensor in decode(body).items()}
    text = f"{device} {job.round} {job.hyper.seed} {job.model}"
    shift = np.float32(int(digest_of(text.encode())[:4], 16) / 2**18)
    tensors = {n: t.astype(np.float32) + shift if t.dtype.kind == "f" else t for n, t in base.items()}
    fields = {"metrics": {"train_loss": float(shift)}}
    if device == "pi-2":
        return make_update(
            device, job, artifact, tensors=encode_delta(tensors, base, None, 8)[0], update="delta", **fields
        )
    return make_update(device, job, artifact, tensors=tensors, **fields)


class InTurn(Device):
    """A device that answers one job whenever `busy` is set."""

    def __init__(self, device: str, prototype: str, broker: BrokerConfig) -> None:
        super().__init__(device, prototype, broker)
        self.busy, self.make = False, trained

    def _answered(self, ack: Ack) -> None:
        if isinstance(ack, Accepted | Rejected):
            self.busy = False
        super()._answered(ack)

    @property
    def counted(self) -> int:
        """How many of its jobs were answered."""
        return len(self.finished)


def play(devices: list[InTurn], order: list[str], watch: Callable[[], None] = lambda: None) -> None:
    """The devices answer in this order, each when all have a job; `watch` is called while that takes its time."""
    by = {device.device: device for device in devices}

    def until(true: Callable[[], bool], what: str) -> None:
        def looked() -> bool:
            watch()
            return true()

        wait_until(looked, 240, lambda: what)

    for number, name in enumerate(order):
        until(lambda: all(device.asked for device in devices), f"no jobs before answer {number}")
        before = by[name].counted
        by[name].busy = True
        until(lambda name=name, before=before: by[name].counted > before, f"answer {number} of {name}")


def as_replayed(service: Aggregator) -> bool:
    """Whether every model is what virtual time makes of the accepted updates, bit by bit."""
    state = service.config.parent / "state"
    journal, blobs = service.journal(), Blobs(state / "blobs")
    try:
        closed = [row.number for row in reversed(journal.rounds()) if row.phase == "closed"]
        digests = {(m.round, m.prototype): m.digest for m in journal.models() if m.origin == "fused"}
    finally:
        journal.close()
    versions = replay(state, SPEC, 2)
    assert len(versions) == len(closed) > 0
    return all(
        np.asarray(decode(open_artifact(blobs.read(digests[closed[version - 1], name]))[1])[key]).tobytes()
        == np.asarray(tensor).tobytes()
        for version, models in versions.items()
        for name, tensors in models.items()
        for key, tensor in tensors.items()
    )


def asynchronous(rounds: int, least: int = 3, deadline: float = 600, more: str = "") -> str:
    return TABLE.format(rounds=rounds, least=least, deadline=deadline) + f"\n{more}"


def test_updates_are_fused_as_in_virtual_time_and_nobody_waits_for_the_slow(
    tmp_path: Path, broker, started: Path
) -> None:
    rounds = len(ORDER) // 2
    with (
        fleet(tmp_path, broker, started, round=asynchronous(rounds), **KEPT) as service,
        Devices(broker.config, NAMES, kind=InTurn) as devices,
    ):
        service.start("--until-done")
        play(devices, ORDER)
        assert service.wait() == 0
        last = {prototype: digest for digest, prototype, _ in history(service)}
        for device in devices:
            wait_until(lambda device=device: isinstance(device.instructions[-1], Offer))
            assert device.instructions[-1].model == last[device.prototype]
            assert not [answer for answer in device.answers if isinstance(answer, Rejected)]
    journal = service.journal()
    assert [device for device, _ in accepted(journal)] == ORDER
    assert {n: journal.staleness(n) for n in range(1, 5)} == {
        1: {"pi-0": 0},  # its second update counts
        2: {"pi-0": 0, "pi-2": 1},
        3: {"pi-0": 0, "pi-2": 1},
        4: {"pi-1": 3, "pi-2": 1},
    }
    assert {u.kind for u in journal.updates(2)} == {"state", "delta"}
    journal.close()
    assert as_replayed(service)


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.parametrize("points", [["aggregator-job-given:2", "worker-fusing"], None], ids=["few", "all"])
def test_killed_at_every_point_it_comes_to_the_same_models(
    tmp_path: Path, mosquitto, started: Path, points: list[str] | None
) -> None:
    points = points or [*POINTS, "aggregator-job-given", "aggregator-job-given:3"]
    order = [*ORDER, *ORDER[::-1], *ORDER][: 2 * len(points)]
    table = asynchronous(len(order) // 2)
    with (
        fleet(tmp_path / "calm", mosquitto, started, round=table, **KEPT) as calm,
        Devices(mosquitto.config, NAMES, kind=InTurn) as devices,
    ):
        calm.start("--until-done")
        play(devices, order)
        assert calm.wait() == 0
    with (
        Mosquitto(tmp_path / "another") as other,
        fleet(tmp_path / "rough", other, started, round=table, **KEPT) as rough,
        Devices(other.config, NAMES, kind=InTurn) as devices,
    ):
        waiting, died = list(points), []

        def revive() -> None:
            """Start it again with the next point whenever it was killed."""
            assert rough.process is not None
            if waiting and waiting[0] == "worker-fusing" and "killed by SIGKILL" in rough.log.read_text():
                rough.end(signal.SIGKILL)
            if waiting and rough.process.poll() is not None:
                assert rough.process.returncode == -signal.SIGKILL
                died.append(waiting.pop(0))
                rough.start("--until-done", crash_at=waiting[0] if waiting else None)

        rough.start("--until-done", crash_at=points[0])
        play(devices, order, revive)
        wait_until(lambda: revive() or not waiting, 240)
        assert rough.wait() == 0
        assert died == points
    assert history(rough) == history(calm)
    journal = rough.journal()
    assert [device for device, _ in accepted(journal)] == order
    assert max(Counter(job for _, job in accepted(journal)).values()) == 1
    journal.close()
    assert as_replayed(rough)


@pytest.mark.broker
def test_stopped_in_the_middle_of_a_buffer_it_goes_on_with_it(tmp_path: Path, mosquitto, started: Path) -> None:
    with (
        fleet(tmp_path, mosquitto, started, round=asynchronous(1), **KEPT) as service,
        Devices(mosquitto.config, NAMES, kind=InTurn) as devices,
    ):
        service.start("--until-done")
        play(devices, ["pi-1"])
        assert service.end() == 0
        facts = fleet_status(load_fleet_config(service.config))
        assert facts["round"]["progress"] == "1 of 2 updates in the buffer"
        service.start("--until-done")
        play(devices, ["pi-2"])
        assert service.wait() == 0
        assert sum(isinstance(answer, Accepted) for device in devices for answer in device.answers) == 2
    assert as_replayed(service)


@pytest.mark.broker
def test_the_place_of_a_device_that_is_lost_is_given_to_another(tmp_path: Path, mosquitto, started: Path) -> None:
    table = asynchronous(1, least=2, deadline=2, more="concurrency = 1")
    with (
        fleet(tmp_path, mosquitto, started, round=table, **KEPT) as service,
        Devices(mosquitto.config, NAMES[:2], kind=InTurn) as devices,
    ):
        service.start("--until-done")
        wait_until(lambda: any(device.asked for device in devices), 240)
        (silent,) = [device for device in devices if device.asked]
        (other,) = [device for device in devices if device is not silent]
        wait_until(lambda: other.asked, 240)
        play([other], [other.device])
        silent.busy = True  # its job has no place any more, but still counts
        assert service.wait() == 0
    journal = service.journal()
    assert [device for device, _ in accepted(journal)] == [other.device, silent.device]
    journal.close()


@pytest.mark.broker
def test_a_restart_with_the_other_mode_abandons_the_open_round_in_one_line(
    tmp_path: Path, mosquitto, started: Path
) -> None:
    with (
        fleet(tmp_path, mosquitto, started, round=asynchronous(9), **KEPT) as service,
        Devices(mosquitto.config, NAMES, kind=InTurn) as devices,
    ):
        service.start()
        play(devices, ["pi-0"])
        assert service.end() == 0
        write_fleet(tmp_path, mosquitto.config, NAMES, round="!rounds = 1\nmin_devices = 3\ndeadline_s = 600")
        service.start("--until-done")
        for device in devices:
            wait_until(lambda device=device: device.asked and device.instructions[-1].round == 2, 240)
            device.busy = True
        assert service.wait() == 0
    line = "the mode of rounds was changed: round 1 is abandoned, 3 jobs are ended, 1 updates are dropped"
    assert service.log.read_text().count(line) == 1
    journal = service.journal()
    assert [u.device for u in journal.updates(2)] == NAMES
    assert [(row.number, row.phase) for row in journal.rounds()] == [(2, "closed"), (1, "abandoned")]
    journal.close()
