"""What one device of a fleet can make its broker hold is bounded, and the others do not notice."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest

from firmware_configs.broker.mosquitto import MAX_PACKET, acl, memory_limit
from firmware_configs.manifest import Manifest
from firmware_configs.provision import provision
from tests.firmware_configs.brokers import Provisioned
from tests.firmware_configs.fleets import manifest
from tests.transport.events import connected, wait_for
from transport.config import BrokerConfig, TlsConfig
from transport.link import Link, Received

pytestmark = [pytest.mark.light, pytest.mark.broker]
BASE = "edgestill/1/garden"
LAST = f"{BASE}/all/model/{'0' * 64}/0"
OWN = ("state", "about", "metrics", "telemetry", "log", "reported", "installing", "predicted", "up")


class Fleet:
    def __init__(self, made: Manifest, broker: Provisioned) -> None:
        self.made, self.broker = made, broker

    def link(self, folder: Path, name: str, filters: list[str]) -> Link:
        files = self.made.out / folder
        tls = TlsConfig(ca=files / "ca.pem", cert=files / f"{name}.pem", key=files / f"{name}.key")
        return connected(Link(BrokerConfig(port=self.broker.port, tls=tls), client_id=name, filters=filters))

    def hostile(self) -> mqtt.Client:
        """pi-02, with a client that takes no care of anybody."""
        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="x", protocol=mqtt.MQTTv311)
        tls = self.made.out / "pi-02" / "tls"
        client.tls_set(str(tls / "ca.pem"), str(tls / "device.pem"), str(tls / "device.key"))
        there = threading.Event()
        client.on_connect = lambda *_: there.set()
        client.connect("127.0.0.1", self.broker.port)
        client.loop_start()
        assert there.wait(120)
        return client

    def memory_mb(self) -> float:
        assert self.broker._process is not None
        status = Path(f"/proc/{self.broker._process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024


@contextmanager
def running(folder: Path, **parts: str) -> Iterator[Fleet]:
    made = manifest(folder, **parts)
    provision(made)
    with Provisioned(folder / "mosquitto", made.out) as broker:
        yield Fleet(made, broker)


def trips_while(fleet: Fleet, flood: Callable[[mqtt.Client, int], None], until: Callable[[int], bool]) -> None:
    """Every message of an honest device reaches the aggregator while another floods.

    At least a dozen, and until the floods, of which `until` is told the number, have had their effect.
    """
    aggregator = fleet.link(Path("_fleet/aggregator"), "aggregator", [f"{BASE}/pi-01/metrics"])
    honest = fleet.link(Path("pi-01/tls"), "device", [])
    client, stop, floods = fleet.hostile(), threading.Event(), itertools.count(1)
    last = [0]

    def run() -> None:
        for last[0] in floods:
            if stop.is_set():
                return
            flood(client, last[0])
            while len(client._out_packet) > 100 and not stop.is_set():
                time.sleep(0.001)

    thread, patience = threading.Thread(target=run, daemon=True), time.monotonic() + 120
    thread.start()
    try:
        for count in itertools.count(1):
            assert honest.publish(f"{BASE}/pi-01/metrics", str(count).encode())
            assert wait_for(aggregator, Received, 120).payload == str(count).encode()
            if count >= 12 and until(last[0]):
                return
            assert time.monotonic() < patience, f"no effect after {last[0]} floods"
            time.sleep(0.02)
    finally:
        stop.set()
        thread.join(60)
        client.loop_stop()
        honest.stop()
        aggregator.stop()


def test_a_device_has_no_more_retained_than_its_few_topics_hold(tmp_path: Path) -> None:
    def flood(client: mqtt.Client, number: int) -> None:
        for leaf in OWN:
            client.publish(f"{BASE}/pi-02/{leaf}", bytes(250_000), 0, retain=True)
            client.publish(f"{BASE}/pi-02/up/{number}/{leaf}", bytes(250_000), 0, retain=True)  # as before
            client.publish(f"{BASE}/pi-02/{leaf}/{number}", bytes(250_000), 0, retain=True)

    with running(tmp_path) as fleet:
        before = fleet.memory_mb()
        trips_while(fleet, flood, lambda number: number > 50)
        assert fleet.memory_mb() < before + 5 * len(OWN) * MAX_PACKET / 1e6
        aggregator = fleet.link(Path("_fleet/aggregator"), "aggregator", [f"{BASE}/pi-02/#", LAST])
        assert aggregator.publish(LAST, b"")
        held = set()
        while (event := wait_for(aggregator, Received)).topic != LAST:
            held.add(event.topic)
        aggregator.stop()
        assert held <= {f"{BASE}/pi-02/{leaf}" for leaf in OWN}


def test_a_device_that_takes_all_memory_is_disconnected_and_the_others_are_not(tmp_path: Path) -> None:
    """By subscriptions, which Mosquitto counts for nothing."""

    def flood(client: mqtt.Client, number: int) -> None:
        client.subscribe([(f"{number}/{i}/{'y' * 1000}", 0) for i in range(100)])

    with running(tmp_path, provision="broker_mb = 64") as fleet:
        thrown_out = "Client pi-02 disconnected due to out of memory"
        trips_while(fleet, flood, lambda _: thrown_out in fleet.broker.log)
        log = fleet.broker.log
        assert "pi-01 disconnected due to out of memory" not in log
        assert fleet.memory_mb() < 2 * memory_limit(2, 64) / 2**20


def test_a_packet_that_is_too_large_ends_the_connection(tmp_path: Path) -> None:
    with running(tmp_path) as fleet:
        client, gone = fleet.hostile(), threading.Event()
        client.on_disconnect = lambda *_: gone.set()
        client.publish(f"{BASE}/pi-02/metrics", bytes(MAX_PACKET + 1), 0)
        assert gone.wait(120)
        client.loop_stop()


def test_devices_write_to_no_wildcard() -> None:
    lines = [line.split() for line in acl("garden", ["press"]).splitlines()]
    written = [words[2] for words in lines if words[1:2] == ["write"]]
    assert len(written) == len(OWN) + 1
    assert not any("#" in topic or "+" in topic for topic in written)
