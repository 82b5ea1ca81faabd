"""The service as a process, on real brokers, with devices that follow the protocol: whole rounds, kills, refusals."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from aggregator.artifacts import open_artifact
from aggregator.blobs import Blobs
from aggregator.journal import Journal
from tests.aggregator.running import ROOT, Aggregator, Devices, wait_until
from tests.aggregator.scripted import Device, make_update, write_fleet
from tests.brokers import Mosquitto
from wire.messages import Accepted, Job, Offer, Rejected
from wire.tensors import decode

NAMES = ["pi-0", "pi-1", "pi-2"]
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


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder with the first models in it: building them takes seconds."""
    folder = tmp_path_factory.mktemp("started")
    with Mosquitto(folder / "mosquitto") as mosquitto:
        with Aggregator(write_fleet(folder, mosquitto.config, NAMES)) as service:
            service.start()
            service.until(lambda journal: len(journal.current()) == 2)
            assert service.end() == 0
    return folder / "state"


def fleet(folder: Path, broker, started: Path, names: list[str] = NAMES, **tables: str) -> Aggregator:
    path = write_fleet(folder, broker.config, names, **tables)
    shutil.copytree(started, folder / "state")
    return Aggregator(path)


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
            assert [type(i) for i in device.instructions] == [Job, Job, Offer]
            assert device.instructions[-1].model == last[device.prototype]
            accepted = [a for a in device.answers if isinstance(a, Accepted)]
            assert [a.round for a in accepted] == [1, 2]
    journal = service.journal()
    assert [(r.number, r.phase) for r in journal.rounds()] == [(2, "closed"), (1, "closed")]
    assert [u.device for u in journal.updates(2)] == NAMES
    journal.close()


def test_the_fused_model_is_the_example_weighted_mean_of_the_updates(tmp_path: Path, mosquitto, started: Path) -> None:
    """Devices add a number of their own to every tensor, so the mean of mlp:fp32 is start + the mean of the numbers."""
    with fleet(tmp_path, mosquitto, started, round="!rounds = 1\nmin_devices = 3\ndeadline_s = 60") as service:
        with Devices(mosquitto.config, NAMES) as devices:
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
    job = next(i for i in device.instructions if isinstance(i, Job))
    from wire.update import decode_update

    artifact = device.model(job.model)
    sealed = make_update(device.device, job, artifact)
    body = decode_update(sealed[2 + sealed[1] : -64])[1]
    name = next(iter(decode(body)))
    from wire.update import decode_model

    return float((decode(body)[name] - decode(decode_model(artifact)[1])[name]).ravel()[0])


@pytest.mark.broker
def test_killed_once_in_every_round_it_comes_to_the_same_models(tmp_path: Path, mosquitto, started: Path) -> None:
    rounds = f"!rounds = {len(POINTS)}\nmin_devices = 3\ndeadline_s = 60"
    with fleet(tmp_path / "calm", mosquitto, started, round=rounds) as calm:
        with Devices(mosquitto.config, NAMES):
            calm.start("--until-done")
            assert calm.wait() == 0
    with Mosquitto(tmp_path / "another") as other:
        with fleet(tmp_path / "rough", other, started, round=rounds) as rough, Devices(other.config, NAMES) as devices:
            for point in POINTS:
                rough.start("--until-done", crash_at=point)
                if point == "worker-fusing":
                    wait_until(lambda: "worker process ended with code -9" in rough.log.read_text(), 20)
                    rough.end(signal.SIGKILL)
                assert rough.wait() == -signal.SIGKILL, point
            rough.start("--until-done")
            assert rough.wait() == 0
            for device in devices:
                accepted = {a.round for a in device.answers if isinstance(a, Accepted)}
                assert accepted == set(range(1, len(POINTS) + 1))
                assert not [a for a in device.answers if isinstance(a, Rejected)]
    assert history(rough) == history(calm)
    journal = rough.journal()
    assert [len(journal.updates(n)) for n in range(1, len(POINTS) + 1)] == [3] * len(POINTS)
    journal.close()
