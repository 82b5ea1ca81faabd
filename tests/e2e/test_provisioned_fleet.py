"""A fleet from its manifest alone: its kits complete rounds over TLS, whatever others try meanwhile."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from aggregator.blobs import Blobs
from aggregator.journal import Journal
from firmware_configs.ca import open_authority
from firmware_configs.identities import make_tls
from firmware_configs.manifest import load_manifest
from firmware_configs.provision import authority_folder, provision, publish_revocations
from fleet.processes import Processes
from tests.brokers import free_port
from tests.e2e.fleets import TIMEOUT
from tests.firmware_configs.brokers import Provisioned
from tests.firmware_configs.fleets import write_served
from tests.transport.events import connected, eventually, wait_for
from transport.config import BrokerConfig, TlsConfig
from transport.link import Disconnected, Link, Received
from wire.chunks import Content, encode_chunk
from wire.codec import encode_message
from wire.envelope import seal
from wire.errors import ConfigError
from wire.ids import AGGREGATOR, transfer_id
from wire.keys import load_private_key
from wire.messages import Hyper, Job
from wire.topics import UpdateChunk

BASE = "edgestill/1/garden"


@dataclass
class Fleet:
    """A provisioned fleet on a disk, its broker and its processes."""

    folder: Path
    broker: Provisioned
    children: Processes

    @property
    def kits(self) -> Path:
        return self.folder / "kits"

    def start(self, device: str) -> None:
        settings = [f"agent.state_dir={self.folder / device}", "train.threads=1", "train.nice=0"]
        flags = [word for text in settings for word in ("--set", text)]
        self.children.start(device, ["agent", "run", "--config", f"kits/{device}/agent.toml", *flags])

    def link(self, name: str, cert: Path | None, key: Path | None, filters: tuple[str, ...] = ()) -> Link:
        tls = TlsConfig(ca=self.kits / "_fleet" / AGGREGATOR / "ca.pem", cert=cert, key=key)
        return Link(BrokerConfig(port=self.broker.port, tls=tls), client_id=name, filters=filters)

    def as_device(self, name: str, device: str, filters: tuple[str, ...] = ()) -> Link:
        tls = self.kits / device / "tls"
        return self.link(name, tls / "device.pem", tls / "device.key", filters)

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def journal(self) -> Journal:
        return Journal(self.folder / "state" / "journal.db", read_only=True)

    def until(self, completed: int) -> None:
        """Wait until so many rounds are closed."""
        until = time.monotonic() + TIMEOUT
        while time.monotonic() < until:
            self.children.check()
            try:
                journal = self.journal()
            except ConfigError:  # not there yet
                continue
            done = journal.completed()
            journal.close()
            if done >= completed:
                return
            time.sleep(0.1)
        raise AssertionError(self.children.last_line("aggregator"))


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Three devices, two of which make a round; the certificate of the third is revoked."""
    port = free_port()
    manifest = load_manifest(write_served(tmp_path, port, count=3, devices=2, rounds=2), environ={})
    provision(manifest)
    with open_authority(authority_folder(manifest.out), "garden") as authority:
        authority.revoke("pi-03")
        authority.save()
        publish_revocations(manifest.out, authority)
    broker = Provisioned(tmp_path / "mosquitto", manifest.out)
    broker.port = port
    children = Processes(tmp_path)
    with broker:
        try:
            yield Fleet(tmp_path, broker, children)
        finally:
            children.stop()


@contextmanager
def strangers(fleet: Fleet) -> Iterator[None]:
    """Clients that try to get in for as long as the block runs, with certificates that are worth nothing."""
    with (
        open_authority(authority_folder(fleet.kits), "garden") as authority,
        open_authority(fleet.folder / "other", "garden", days=10) as other,
    ):
        made = {
            "expired": make_tls(authority, "pi-01", purpose="client", days=-0.1),
            "not trust": make_tls(other, "pi-01", purpose="client", days=5),
        }
    links = {"certificate": fleet.link("nobody", None, None), "revoked": fleet.as_device("revoked", "pi-03")}
    for why, identity in made.items():
        cert, key = fleet.folder / f"{why}.pem", fleet.folder / f"{why}.key"
        cert.write_bytes(identity.cert)
        key.write_bytes(identity.key)
        links[why] = fleet.link(why.replace(" ", "-"), cert, key)
    for link in links.values():
        link.start()
    try:
        yield
        for why, link in links.items():
            assert not link.connected
            assert why in wait_for(link, Disconnected).reason
    finally:
        for link in links.values():
            link.stop()


def send_forged_jobs(fleet: Fleet) -> None:
    """What only the broker itself could do: jobs to pi-01 that the aggregator did not sign."""
    hyper = Hyper(batch_size=1, lr=1.0, steps=1)
    job = Job(round=99, deadline=9e9, prototype="mlp:fp32", update="state", hyper=hyper, model="0" * 64)
    device, own = (
        load_private_key(fleet.kits / "pi-02" / "device.key"),
        load_private_key(fleet.folder / "aggregator.key"),
    )
    message = encode_message(job)
    forged = [
        message,
        seal(message, key=device, kind="job", sender=AGGREGATOR, fleet="garden", round=99),
        seal(message, key=own, kind="job", sender=AGGREGATOR, fleet="forest", round=99),
    ]
    tls = fleet.kits / "_fleet" / AGGREGATOR
    broker = connected(fleet.link("broker", tls / "aggregator.pem", tls / "aggregator.key"))
    for payload in forged:
        assert broker.publish(f"{BASE}/pi-01/job", payload)
    assert eventually(lambda: broker.pending() == 0)
    broker.stop()


def replay(fleet: Fleet, link: Link, recorded: str, device: str) -> None:
    """Send the update that `recorded` had accepted in round 1, as `device`."""
    journal = fleet.journal()
    (row,) = [update for update in journal.updates(1) if update.device == recorded]
    journal.close()
    sealed = Blobs(fleet.folder / "state" / "blobs").read(row.digest)
    content = Content(digest=row.digest, size=row.size)
    for n in range(content.count):
        offset, size = content.span(n)
        topic = UpdateChunk("garden", device, transfer_id(row.digest), n)
        assert link.publish(str(topic), encode_chunk(content, n, sealed[offset : offset + size]))


@pytest.mark.broker
def test_kits_complete_their_rounds_whatever_others_try_and_all_of_it_is_logged(fleet: Fleet) -> None:
    forger = connected(fleet.as_device("forger", "pi-02"))  # pi-02's certificate, pi-01's topics
    spy = connected(fleet.as_device("spy", "pi-02", (f"{BASE}/pi-01/#", f"{BASE}/+/job", f"{BASE}/+/ack")))
    twin = connected(fleet.as_device("twin", "pi-01"))
    fleet.children.start("aggregator", ["aggregator", "serve", "--config", "fleet.toml", "--until-done"])
    for device in ("pi-01", "pi-02", "pi-03"):
        fleet.start(device)
    with strangers(fleet):
        assert eventually(lambda: "connected to" in fleet.said("pi-01"), 60)
        send_forged_jobs(fleet)
        for leaf in ("state", "about", "metrics", "up/00/0", "job"):
            assert forger.publish(f"{BASE}/pi-01/{leaf}", b"forged")
        fleet.until(completed=1)
        replay(fleet, twin, "pi-01", "pi-01")  # a recording of its own, in its own name
        replay(fleet, twin, "pi-02", "pi-01")  # another's, in its own name
        replay(fleet, forger, "pi-01", "pi-01")  # in another's name
        fleet.until(completed=2)
        assert eventually(lambda: fleet.children.ended("aggregator"))
        fleet.children.check()
    for link in (forger, twin):
        link.stop()
    heard = []
    while (event := spy.next_event(0.2)) is not None:
        heard.append(event)
    spy.stop()
    assert {m.topic for m in heard if isinstance(m, Received)} <= {f"{BASE}/pi-02/job", f"{BASE}/pi-02/ack"}
    journal = fleet.journal()
    for number in (1, 2):
        assert [update.device for update in journal.updates(number)] == ["pi-01", "pi-02"]
    assert not [update for update in journal.updates(2) if update.round != 2]
    journal.close()
    aggregator, agent, broker = fleet.said("aggregator"), fleet.said("pi-01"), fleet.broker.log
    assert "update from 'pi-01' again, accepted before: not counted twice" in aggregator
    assert "update from 'pi-01' refused: envelope: the signature is not that of the expected key" in aggregator
    assert agent.count("edgestill/1/garden/pi-01/job: envelope") == 3
    assert "has been revoked" in fleet.said("pi-03")
    assert broker.count("Denied PUBLISH from forger") >= 6
    for reason in ("peer did not return a certificate", "certificate verify failed"):
        assert reason in broker, reason
