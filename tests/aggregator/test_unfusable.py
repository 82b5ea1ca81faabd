"""Rounds that cannot be fused: the update that is to blame is set aside, and operators are obeyed meanwhile."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from aggregator.storage.journal import Journal
from tests.aggregator.running import NAMES, ROOT, Aggregator, Devices, command, fleet, wait_until
from tests.aggregator.scripted import write_fleet
from tests.brokers import Mosquitto

ROUND = "!rounds = {rounds}\nmin_devices = 2\ndeadline_s = 600"
pytestmark = pytest.mark.broker


def poisoned(poison: str) -> dict[str, str]:
    return {"EDGESTILL_TEST_POISON": poison, "PYTHONPATH": f"{ROOT / 'tests' / 'aggregator' / 'poison'}:{ROOT}"}


def wait_for_phase(service: Aggregator, phase: str, number: int = 1) -> None:
    service.until(lambda j: any((r.number, r.phase) == (number, phase) for r in j.rounds()))


@pytest.mark.parametrize(
    ("how", "words"),
    [("kill", "it ended the worker process by signal 9"), ("raise", "ValueError: an update that nobody")],
)
def test_an_update_that_ends_the_worker_is_set_aside_with_its_device_and_the_round_goes_on(
    tmp_path: Path,
    mosquitto: Mosquitto,
    started: Path,
    how: str,
    words: str,
) -> None:
    with (
        fleet(tmp_path, mosquitto, started, round=ROUND.format(rounds=2)) as service,
        Devices(mosquitto.config, NAMES) as devices,
    ):
        devices[1].busy = False
        service.start("--until-done", env=poisoned(f"pi-0:{how}"))
        service.until(lambda j: len(j.updates(1)) == 2)
        devices[1].busy = True
        assert service.wait() == 0
    journal = service.journal()
    assert [u.device for u in journal.updates(1)] == ["pi-1", "pi-2"]
    assert journal.excluded(1)["pi-0"].startswith(f"cannot be fused: {words}")
    (refusal,) = journal.refusals()
    assert (refusal.device, refusal.round) == ("pi-0", 1)
    assert {d.id for d in journal.devices() if d.muted_until} == {"pi-0"}
    assert "pi-0" not in {i.device for i in journal.invitations(2)}  # it is muted
    assert [u.device for u in journal.updates(2)] == ["pi-1", "pi-2"]
    journal.close()
    assert "the update of 'pi-0' is set aside: it cannot be fused" in service.log.read_text()


def test_an_accepted_update_that_the_disk_has_lost_costs_that_update_alone(
    tmp_path: Path,
    mosquitto: Mosquitto,
    started: Path,
) -> None:
    with (
        fleet(tmp_path, mosquitto, started, round="!rounds = 1\nmin_devices = 3\ndeadline_s = 600") as service,
        Devices(mosquitto.config, NAMES) as devices,
    ):
        devices[1].busy = False
        service.start("--until-done")
        service.until(lambda j: len(j.updates(1)) == 2)
        journal = service.journal()
        lost = next(u.digest for u in journal.updates(1) if u.device == "pi-2")
        journal.close()
        (tmp_path / "state" / "blobs" / lost).write_bytes(b"")
        devices[1].busy = True
        assert service.wait() == 0
    journal = service.journal()
    assert [u.device for u in journal.updates(1)] == ["pi-0", "pi-1"]
    assert "is damaged" in journal.excluded(1)["pi-2"]
    journal.close()


@pytest.mark.slow
def test_where_every_update_fails_nobody_is_blamed_and_a_skip_frees_the_fleet(
    tmp_path: Path,
    mosquitto: Mosquitto,
    started: Path,
) -> None:
    """The published models are gone: it is not the devices' fault."""
    with (
        fleet(tmp_path, mosquitto, started, round="!rounds = 1\nmin_devices = 3\ndeadline_s = 600") as service,
        Devices(mosquitto.config, NAMES) as devices,
    ):
        devices[2].busy = False
        service.start("--until-done")
        service.until(lambda j: len(j.updates(1)) == 2)
        journal = service.journal()
        bases = {i.model for i in journal.invitations(1)}
        journal.close()
        blobs = tmp_path / "state" / "blobs"
        kept = {digest: (blobs / digest).read_bytes() for digest in bases}
        for digest in bases:
            (blobs / digest).unlink()
        devices[2].busy = True
        service.until(lambda j: j.get("hold") == "paused", 120)
        journal = service.journal()
        assert journal.excluded(1) == {}
        journal.close()
        assert command(service, "skip") == "round 1 skipped"
        for digest, data in kept.items():
            (blobs / digest).write_bytes(data)
        assert command(service, "resume") == "running"
        assert service.wait() == 0
        journal = service.journal()
        assert [(r.number, r.phase) for r in journal.rounds()] == [(2, "closed"), (1, "abandoned")]
        assert {d.muted_until for d in journal.devices()} == {0.0}
        journal.close()


@pytest.mark.parametrize(
    "verb", ["revoke", *(pytest.param(v, marks=pytest.mark.slow) for v in ("skip", "rollback", "stop"))]
)
def test_while_a_round_is_fused_an_operator_is_obeyed_at_once(
    tmp_path: Path,
    mosquitto: Mosquitto,
    started: Path,
    verb: str,
) -> None:
    """The worker hangs on one device's update, for good."""
    with (
        fleet(tmp_path, mosquitto, started, round=ROUND.format(rounds=3)) as service,
        Devices(mosquitto.config, NAMES) as devices,
    ):
        devices[1].busy = False
        service.start(env=poisoned("pi-0:hang"))
        service.until(lambda j: len(j.updates(1)) == 2)
        devices[1].busy = True
        wait_for_phase(service, "fusing")
        journal = Journal(tmp_path / "state" / "journal.db")
        if verb == "revoke":
            assert command(service, "revoke", "pi-0") == "revoked"
            wait_for_phase(service, "closed")
            assert [u.device for u in journal.updates(1)] == ["pi-1", "pi-2"]
            wait_for_phase(service, "closed", 2)
        elif verb == "skip":
            assert command(service, "skip") == "round 1 skipped"
            wait_for_phase(service, "abandoned")
            wait_for_phase(service, "fusing", 2)
            assert command(service, "revoke", "pi-0") == "revoked"
            wait_for_phase(service, "closed", 2)
        elif verb == "rollback":
            first = journal.models("mlp:fp32")[0]
            assert command(service, "rollback", first.digest).startswith("error: model")  # it is the newest already
            assert next(r.phase for r in journal.rounds() if r.number == 1) == "fusing"
        else:
            assert command(service, "stop") == "stopped"  # the round that is being fused is the last
            assert command(service, "revoke", "pi-0") == "revoked"
            wait_for_phase(service, "closed")
            assert command(service, "skip") == "error: no round is open; there is nothing to skip"
            assert len(journal.rounds()) == 1
        journal.close()
        assert service.end() == 0


@pytest.mark.slow
def test_a_rollback_while_a_round_is_fused_gives_the_round_up(
    tmp_path: Path,
    mosquitto: Mosquitto,
    started: Path,
) -> None:
    with (
        fleet(tmp_path, mosquitto, started, round=ROUND.format(rounds=3)) as service,
        Devices(mosquitto.config, NAMES),
    ):
        service.start()
        service.until(lambda j: j.completed() == 1)
        assert service.end() == 0
        service.start(env=poisoned("all:hang"))
        service.until(lambda j: any(r.phase == "fusing" and r.number > 1 for r in j.rounds()))
        journal = service.journal()
        first = journal.models("mlp:fp32")[0]
        number = journal.last_round().number
        digest = command(service, "rollback", first.digest)
        wait_until(lambda: journal.current()["mlp:fp32"].digest == digest)
        assert next(r for r in journal.rounds() if r.number == number).reason == "rolled back"
        journal.close()
        assert service.end(signal.SIGTERM) == 0


@pytest.mark.slow
def test_a_worker_that_hangs_does_not_outlive_the_service(tmp_path: Path, mosquitto: Mosquitto, started: Path) -> None:
    path = write_fleet(tmp_path, mosquitto.config, NAMES, round=ROUND.format(rounds=1))
    with fleet(tmp_path, mosquitto, started, round=ROUND.format(rounds=1)) as service, Devices(mosquitto.config, NAMES):
        service.start(env=poisoned("all:hang"))
        wait_for_phase(service, "fusing")
        assert service.end() == 0
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(path.parent) not in listed
