"""A fleet from its manifest alone: its kits complete rounds over TLS, whatever others try meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aggregator.storage.blobs import Blobs
from firmware_configs.identity.ca import open_authority
from firmware_configs.identity.identities import make_tls
from firmware_configs.provision import authority_folder, publish_revocations
from tests.e2e.provisioned import BASE, Fleet, provisioned
from tests.firmware_configs.brokers import OWNER
from tests.transport.events import connected, eventually, wait_for
from transport.link import Disconnected, Link
from wire.chunks import Content, encode_chunk
from wire.codec import encode_message
from wire.envelope import seal
from wire.ids import AGGREGATOR
from wire.keys import load_private_key
from wire.messages import Hyper, Job
from wire.topics import DeviceTopic


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Four devices: two make a round, the third is in bad hands, and the certificate of the fourth is revoked."""
    with provisioned(tmp_path, count=4, devices=2) as made:
        with open_authority(authority_folder(made.kits), "garden") as authority:
            authority.revoke("pi-04")
            authority.save()
            publish_revocations(made.kits, authority)
        made.broker.start()
        yield made


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
    links = {"certificate": fleet.link("nobody", None, None), "revoked": fleet.as_device("revoked", "pi-04")}
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


def owner_of(fleet: Fleet) -> Link:
    """The broker itself, or whoever runs it: it may say anything to anybody."""
    with open_authority(authority_folder(fleet.kits), "garden") as authority:
        identity = make_tls(authority, OWNER, purpose="client", days=1)
    cert, key = fleet.folder / "owner.pem", fleet.folder / "owner.key"
    cert.write_bytes(identity.cert)
    key.write_bytes(identity.key)
    return connected(fleet.link("owner", cert, key))


def send_forged_jobs(fleet: Fleet, owner: Link) -> None:
    """Jobs to pi-01 that the aggregator did not sign."""
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
    for payload in forged:
        assert owner.publish(f"{BASE}/pi-01/job", payload)
    assert eventually(lambda: owner.pending() == 0)


def replay(fleet: Fleet, link: Link, recorded: str, device: str) -> None:
    """Send the update that `recorded` had accepted in round 1, as `device`."""
    journal = fleet.journal()
    (row,) = [update for update in journal.updates(1) if update.device == recorded]
    journal.close()
    sealed = Blobs(fleet.folder / "state" / "blobs").read(row.digest)
    content = Content(digest=row.digest, size=row.size)
    for n in range(content.count):
        offset, size = content.span(n)
        topic = DeviceTopic("garden", device, "up")
        assert link.publish(str(topic), encode_chunk(content, n, sealed[offset : offset + size]))


@pytest.mark.broker
def test_kits_complete_their_rounds_whatever_others_try_and_all_of_it_is_logged(fleet: Fleet) -> None:
    bad = connected(fleet.as_device("edgestill-garden-pi-01", "pi-03", (f"{BASE}/pi-01/#", f"{BASE}/+/job")))
    owner = owner_of(fleet)
    fleet.children.start("aggregator", ["aggregator", "serve", "--config", "fleet.toml", "--until-done"])
    for device, point in {"pi-01": "", "pi-02": "agent-training-started", "pi-04": ""}.items():
        fleet.start(device, EDGESTILL_CRASH_AT=point)
    with strangers(fleet):
        assert eventually(lambda: "connected to" in fleet.said("pi-01"), 120)
        send_forged_jobs(fleet, owner)
        for leaf in ("state", "about", "metrics", "up", "job"):
            assert bad.publish(f"{BASE}/pi-01/{leaf}", b"forged")
        fleet.until(lambda journal: journal.has_update("pi-01", 1))
        replay(fleet, owner, "pi-01", "pi-01")  # once more what was accepted
        replay(fleet, bad, "pi-01", "pi-03")  # another's work as its own
        replay(fleet, bad, "pi-01", "pi-01")  # in another's name
        done = fleet.edgestill("device", "set", "pi-01", "log.level=warning", "train.threads=1", "--wait", "60")
        assert (done.returncode, "log.level=warning train.threads=1" in done.stdout) == (0, True), done.stderr
        assert eventually(lambda: fleet.children.ended("pi-02"), 120)
        fleet.start("pi-02")  # the round has waited for it
        fleet.until(lambda journal: journal.completed() == 1)
        assert eventually(lambda: fleet.children.ended("aggregator"), 120)
        fleet.children.check()
    owner.stop()
    heard = []
    while (event := bad.next_event(0.2)) is not None:
        heard.append(event)
    bad.stop()
    assert heard == []
    journal = fleet.journal()
    assert [update.device for update in journal.updates(1)] == ["pi-01", "pi-02"]
    journal.close()
    aggregator, agent, broker = fleet.said("aggregator"), fleet.said("pi-01"), fleet.broker.log
    assert "update from 'pi-01' again, accepted before: not counted twice" in aggregator
    assert "update from 'pi-03' refused: envelope: the signature is not that of the expected key" in aggregator
    assert agent.count("edgestill/1/garden/pi-01/job: envelope") == 3
    assert "has been revoked" in fleet.said("pi-04")
    assert broker.count("Denied PUBLISH from pi-03") >= 6
    assert agent.count("transport: connected to") == 1  # nobody has thrown it off
    for reason in ("peer did not return a certificate", "certificate verify failed"):
        assert reason in broker, reason
