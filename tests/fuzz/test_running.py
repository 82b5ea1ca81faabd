"""Hostile messages against the service as a process, on real brokers: it stands, and the fleet does its round."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aggregator.storage.journal import Journal
from tests.aggregator.running import Aggregator, Devices, wait_until
from tests.aggregator.scripted import write_fleet
from tests.brokers import BOTH, Broker, Embedded, Mosquitto
from tests.certificates import Authority
from tests.fuzz import world
from tests.fuzz.cases import DEVICES, KINDS, case
from tests.fuzz.office import LIMITS, prepare_state
from transport.link import Link
from wire.messages import Accepted, Rejected

CASES = 500
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
        "limits": LIMITS,
    }
    if config.tls is not None:
        files = {"ca": config.tls.ca, "cert": config.tls.cert, "key": config.tls.key}
        tables["broker.tls"] = "\n".join(f'{name} = "{path}"' for name, path in files.items())
    return Aggregator(write_fleet(folder, config, [*ALL], **tables))


@pytest.mark.slow
@pytest.mark.broker
def test_500_hostile_messages_later_the_service_does_its_round(secured: Broker, tmp_path: Path) -> None:
    with fleet(tmp_path, secured) as service, Link(secured.config, client_id="hostile", filters=["nothing"]) as link:
        service.start("--until-done")
        wait_until(lambda: link.connected and "connected to" in _log(service), 60)
        for number in range(CASES):
            made = case(KINDS[number % len(KINDS)], 100_000 + number)
            for topic, payload in made.messages:
                if len(topic) < 200 and link.connected:
                    link.publish(topic, payload, retain=number % 50 == 0)
            wait_until(lambda: link.pending() < 20, 60)
            assert service.process is not None
            assert service.process.poll() is None, f"the service ended by {made}: {_log(service)[-3000:]}"
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
    assert sum(row.refused for row in journal.devices() if row.id in DEVICES) > CASES / 4
    assert not [row.id for row in journal.devices() if row.id in HONEST and row.refused]
    journal.close()
    lines = [line for line in _log(service).splitlines() if "DEBUG" not in line]
    assert not [line for line in lines if "Traceback" in line]


def _log(service: Aggregator) -> str:
    return service.log.read_text() if service.log.exists() else ""
