"""The service beside a device that floods: that device alone is slowed, and is heard again when it stops."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import pytest

from aggregator.config.fleet import load_fleet_config
from aggregator.status import fleet_status
from tests.aggregator.running import Aggregator, Devices, wait_until
from tests.aggregator.scripted import FLEET, write_fleet
from transport.config import BrokerConfig
from transport.link import Link
from wire.chunks import Content, encode_chunk
from wire.ids import transfer_id
from wire.messages import Accepted
from wire.topics import UpdateChunk

NAMES = ["pi-0", "pi-1", "pi-2"]
ONE = "!rounds = 1\nmin_devices = 3\ndeadline_s = 300"
LIMITS = "update_mb = 1\nmessages_per_minute = 600\nreports_per_minute = 60"  # 92 messages at once, then 10 a second


def fleet(folder: Path, broker, started: Path) -> Aggregator:
    path = write_fleet(folder, broker.config, NAMES, round=ONE, limits=LIMITS)
    shutil.copytree(started, folder / "state")
    return Aggregator(path)


class Flood(threading.Thread):
    """Sends one chunk of an update again and again in a device's name, so many times a second, while the block runs."""

    def __init__(self, broker: BrokerConfig, device: str, per_second: float) -> None:
        super().__init__(daemon=True)
        content = Content(digest="0" * 64, size=10_000, chunk_size=4096)
        self._topic = str(UpdateChunk(FLEET, device, transfer_id(content.digest), 0))
        self._chunk = encode_chunk(content, 0, bytes(4096))
        self._link = Link(broker, client_id="flood", filters=[])
        self._per_second, self._ending = per_second, False
        self.sent = 0

    def run(self) -> None:
        started = time.monotonic()
        while not self._ending:
            while self.sent < (time.monotonic() - started) * self._per_second:
                self.sent += self._link.publish(self._topic, self._chunk, qos=0)
            time.sleep(0.005)

    def __enter__(self) -> Flood:
        self._link.start()
        wait_until(lambda: self._link.connected)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending = True
        self.join(60)
        self._link.stop()


def limited(service: Aggregator) -> dict[str, int]:
    facts = fleet_status(load_fleet_config(service.config))
    return {device["id"]: device["limited"] for device in facts["devices"] if device["limited"]}


def standing_still(service: Aggregator, flood: Flood) -> bool:
    """Whether none of the next thousands of messages arrive; the service writes its status once a second."""
    before, sent = limited(service), flood.sent
    wait_until(lambda: flood.sent >= sent + 3000)
    return limited(service) == before


def kept_at_the_broker(sent: int, arrived: int) -> bool:
    """Of thousands, at most those of the moments in which the service listens to the device again."""
    return sent >= 3000 and arrived < sent / 6


def of_log(service: Aggregator, words: str) -> list[str]:
    return [line for line in service.log.read_text().splitlines() if words in line]


@pytest.mark.broker
def test_a_device_over_its_budget_is_slowed_alone_and_heard_again_when_it_stops(
    tmp_path: Path, mosquitto, started: Path
) -> None:
    with fleet(tmp_path, mosquitto, started) as service, Devices(mosquitto.config, NAMES) as devices:
        devices[0].busy = devices[1].busy = False
        service.start("--until-done")
        service.until(lambda journal: len(journal.updates(1)) == 1)
        with Flood(mosquitto.config, "pi-0", 250) as flood:
            wait_until(lambda: bool(limited(service)), 120, lambda: service.log.read_text()[-2000:])
            devices[1].busy = True  # while the other one floods
            service.until(lambda journal: len(journal.updates(1)) == 2)
            assert flood.is_alive()
            assert limited(service).keys() == {"pi-0"}
        devices[0].busy = True
        assert service.wait() == 0
        assert isinstance(devices[0].answers[-1], Accepted)
    (line,) = of_log(service, "is over its budget")
    assert "device 'pi-0' is over its budget (messages" in line
    journal = service.journal()
    assert [update.device for update in journal.updates(1)] == NAMES
    assert [row.muted_until for row in journal.devices()] == [0.0] * 3
    journal.close()


@pytest.mark.broker
def test_a_flood_stays_at_the_broker_while_others_do_their_round(tmp_path: Path, mosquitto, started: Path) -> None:
    """Who sends far too much is not subscribed to; the others are, one by one."""
    with fleet(tmp_path, mosquitto, started) as service, Devices(mosquitto.config, NAMES) as devices:
        for device in devices:
            device.busy = False
        service.start()
        service.until(lambda journal: bool(journal.rounds()))
        with Flood(mosquitto.config, "pi-0", 1500) as flood:
            flooded = (
                "a flood of 'up' messages from 'pi-0': for 30 s it is listened to the 2 devices within their budgets"
            )
            wait_until(lambda: bool(of_log(service, flooded)), 120, lambda: service.log.read_text()[-2000:])
            wait_until(lambda: standing_still(service, flood))  # what was under way has arrived
            before, sent = limited(service)["pi-0"], flood.sent
            devices[1].busy = devices[2].busy = True
            service.until(lambda journal: len(journal.updates(1)) == 2, 120)
            wait_until(lambda: kept_at_the_broker(flood.sent - sent, limited(service).get("pi-0", before) - before))
        assert service.end() == 0


@pytest.mark.slow
@pytest.mark.broker
def test_after_the_flood_the_device_is_subscribed_to_again(tmp_path: Path, broker, started: Path) -> None:
    with fleet(tmp_path, broker, started) as service, Devices(broker.config, NAMES) as devices:
        devices[0].busy = False
        service.start("--until-done")
        service.until(lambda journal: len(journal.updates(1)) == 2)
        with Flood(broker.config, "pi-0", 1500):
            wait_until(lambda: bool(of_log(service, "a flood of 'up' messages")), 120)
        devices[0].busy = True
        assert service.wait(120) == 0
        assert isinstance(devices[0].answers[-1], Accepted)
