"""Hostile messages against the service as a process, on real brokers: it stands, and the fleet does its round."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from aggregator.storage.journal import Journal
from tests.aggregator.running import Aggregator, Devices, wait_until
from tests.aggregator.scripted import FLEET, key_of, write_fleet
from tests.brokers import BOTH, Broker, Embedded, Mosquitto
from tests.certificates import Authority
from tests.fuzz import world
from tests.fuzz.cases import DEVICES, KINDS, Case, case
from tests.fuzz.office import BUDGETS, LIMITS, prepare_state
from transport.link import Link
from wire.codec import encode_message
from wire.envelope import seal
from wire.messages import About, Accepted, Rejected
from wire.topics import DeviceTopic

CASES = 500
BATCH = 25  # fewer messages of one device than its lane of the inbox holds: none is dropped, however slow the machine
HONEST = {f"pi-{i}": prototype for i, prototype in enumerate(world.PROTOTYPES)}
ALL = {**DEVICES, **HONEST}


@pytest.fixture(params=BOTH)
def secured(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """Mosquitto over TLS, as enrolment has it; and the embedded broker."""
    tls = Authority(tmp_path / "authority")
    with Mosquitto(tmp_path / "mosquitto", tls=tls) if request.param == "mosquitto" else Embedded() as started:
        yield started


def fleet(folder: Path, broker: Broker) -> Aggregator:
    prepare_state(folder / "state", ALL)
    config = broker.config
    tables = {
        "prototypes": f"!names = {list(world.PROTOTYPES)}".replace("'", '"'),
        "round": "!rounds = 1\nmin_devices = 6\ndeadline_s = 600",
        "limits": f"{LIMITS}\n{BUDGETS}",
    }
    if config.tls is not None:
        files = {"ca": config.tls.ca, "cert": config.tls.cert, "key": config.tls.key}
        tables["broker.tls"] = "\n".join(f'{name} = "{path}"' for name, path in files.items())
    return Aggregator(write_fleet(folder, config, [*ALL], **tables))


def publish(link: Link, batch: list[Case]) -> None:
    for hostile in batch:
        for topic, payload in hostile.messages:
            if len(topic) < 200:
                assert link.publish(topic, payload, retain=hostile.number % 50 == 0)


def wait_until_read(link: Link, state: Path, marker: str) -> None:
    """Every hostile device sends an honest message, and the service has noted it: all before it has been handled."""
    for device, prototype in DEVICES.items():
        about = encode_message(
            About(board=marker, prototype=prototype, precision=prototype.partition(":")[2], label_counts=())
        )
        sealed = seal(about, key=key_of(device), kind="about", sender=device, fleet=FLEET)
        assert link.publish(str(DeviceTopic(FLEET, device, "about")), sealed)
    journal = Journal(state / "journal.db")
    wait_until(lambda: {row.board for row in journal.devices() if row.id in DEVICES} == {marker})
    journal.close()


@pytest.mark.slow
@pytest.mark.broker
def test_500_hostile_messages_later_the_service_does_its_round(secured: Broker, tmp_path: Path) -> None:
    with fleet(tmp_path, secured) as service, Link(secured.config, client_id="hostile", filters=["nothing"]) as link:
        service.start("--until-done")
        wait_until(lambda: link.connected and "connected to" in _log(service))
        hostile = (case(KINDS[i % len(KINDS)], 100_000 + i) for i in range(CASES))
        while batch := list(islice(hostile, BATCH)):
            publish(link, batch)
            wait_until_read(link, tmp_path / "state", f"after {batch[-1].number}")
            assert service.process is not None
            assert service.process.poll() is None, f"the service ended by one of {batch}: {_log(service)[-3000:]}"
        for device in DEVICES:  # the operator has seen enough; the round goes on with the others
            asker = Journal(tmp_path / "state" / "journal.db")
            asker.ask("revoke", device)
            asker.close()
        with Devices(secured.config, [*HONEST], tuple(HONEST.values())) as devices:
            assert service.wait(120) == 0, _log(service)[-3000:]
            for device in devices:
                assert [type(a) for a in device.answers if isinstance(a, Accepted | Rejected)] == [Accepted]
    journal = service.journal()
    assert [(row.number, row.phase) for row in journal.rounds()] == [(1, "closed")]
    assert {row.device for row in journal.updates(1)} >= set(HONEST)
    assert sum(row.refused for row in journal.devices() if row.id in DEVICES) > CASES / 2
    assert not [row.id for row in journal.devices() if row.id in HONEST and row.refused]
    journal.close()
    lines = [line for line in _log(service).splitlines() if "DEBUG" not in line]
    assert not [line for line in lines if "Traceback" in line]


def _log(service: Aggregator) -> str:
    return service.log.read_text() if service.log.exists() else ""
