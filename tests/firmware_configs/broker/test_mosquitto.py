"""The broker of a provisioned fleet lets in whom it should, and lets them do what they may."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from firmware_configs.broker.mosquitto import acl, conf
from firmware_configs.identity.ca import Authority, open_authority
from firmware_configs.identity.identities import make_tls
from firmware_configs.manifest import Manifest
from firmware_configs.provision import authority_folder, provision, publish_revocations
from tests.brokers import Mosquitto
from tests.firmware_configs.brokers import Provisioned
from tests.firmware_configs.fleets import manifest
from tests.transport.events import connected, eventually, messages, wait_for
from transport.config import BrokerConfig, TlsConfig
from transport.link import Disconnected, Link, Received
from wire.topics import agent_filters, aggregator_filters

pytestmark = [pytest.mark.light, pytest.mark.broker]
BASE = "edgestill/1/garden"


@dataclass
class Fleet:
    manifest: Manifest
    broker: Mosquitto
    folder: Path

    def config(self, cert: Path | None, key: Path | None, ca: Path | None = None) -> BrokerConfig:
        ca = ca or self.manifest.out / "pi-01" / "tls" / "ca.pem"
        return BrokerConfig(port=self.broker.port, tls=TlsConfig(ca=ca, cert=cert, key=key), keepalive_s=5)

    def kit(self, device: str) -> BrokerConfig:
        tls = self.manifest.out / device / "tls"
        return self.config(tls / "device.pem", tls / "device.key")

    def aggregator(self) -> BrokerConfig:
        tls = self.manifest.out / "_fleet" / "aggregator"
        return self.config(tls / "aggregator.pem", tls / "aggregator.key")

    def issued(self, authority: Authority, name: str, days: float) -> BrokerConfig:
        made = make_tls(authority, name, purpose="client", days=days)
        cert, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        cert.write_bytes(made.cert)
        key.write_bytes(made.key)
        return self.config(cert, key)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    made = manifest(folder)
    provision(made)
    with Provisioned(folder / "mosquitto", made.out) as broker:
        yield Fleet(made, broker, folder)


def refused(config: BrokerConfig, name: str = "pi-01") -> str:
    """Why the broker does not let this client in."""
    with Link(config, client_id=f"{name}-x", filters=[]) as link:
        return wait_for(link, Disconnected).reason


def test_a_device_says_and_hears_what_is_its_own_and_nothing_else(fleet: Fleet) -> None:
    aggregator = connected(Link(fleet.aggregator(), client_id="aggregator", filters=list(aggregator_filters("garden"))))
    own = connected(Link(fleet.kit("pi-01"), client_id="pi-01", filters=list(agent_filters("garden", "pi-01"))))
    spied = [f"{BASE}/pi-01/job", f"{BASE}/pi-01/state", f"{BASE}/pi-01/up/#", f"{BASE}/#", f"{BASE}/pi-02/job"]
    curious = connected(Link(fleet.kit("pi-02"), client_id="pi-02", filters=spied))
    leaves = ("about", "metrics", "telemetry", "log", "installing", "up")
    for leaf in leaves:
        assert own.publish(f"{BASE}/pi-01/{leaf}", b"mine")
    assert [m.payload for m in messages(aggregator, len(leaves))] == [b"mine"] * len(leaves)
    for topic in (
        "pi-01/predict",
        "pi-01/predicted",
        "pi-01/telemetry",
        "pi-01/log",
        "pi-02/ask",
        "pi-02/predict",
        "pi-01/state",
        "pi-01/installing",
        "pi-01/up",
        "pi-02/up/abc/0",
        "pi-01/job",
        "pi-02/job",
        f"all/model/{'0' * 64}/0",
    ):
        assert curious.publish(f"{BASE}/{topic}", b"forged")
    assert curious.publish("edgestill/1/other/pi-02/state", b"another fleet")
    assert eventually(lambda: curious.pending() == 0)
    assert aggregator.publish(f"{BASE}/pi-01/job", b"job 1")
    assert wait_for(own, Received).payload == b"job 1"
    assert aggregator.publish(f"{BASE}/pi-02/job", b"job 2")
    assert wait_for(curious, Received).payload == b"job 2"  # and neither pi-01's job nor a forged one before it
    assert aggregator.publish(f"{BASE}/all/model/{'a' * 64}/0", b"chunk", retain=True)
    assert own.subscribe([f"{BASE}/all/model/{'a' * 64}/0"])
    assert wait_for(own, Received).payload == b"chunk"
    for link in (aggregator, own, curious):
        if link is not curious:  # which hears the model by its wildcard, as it may
            assert link.next_event(0.2) is None
        link.stop()
    assert eventually(lambda: fleet.broker.log.count("Denied PUBLISH from pi-02") >= 14)
    assert fleet.broker.log.count("Denied PUBLISH from pi-02") == 14


def test_a_device_cannot_throw_another_off_by_its_client_id(fleet: Fleet) -> None:
    own = connected(Link(fleet.kit("pi-01"), client_id="edgestill-garden-pi-01", filters=[]))
    other = connected(Link(fleet.kit("pi-02"), client_id="edgestill-garden-pi-01", filters=[f"{BASE}/pi-02/job"]))
    assert own.publish(f"{BASE}/pi-01/metrics", b"still here")
    assert eventually(lambda: own.pending() == 0)
    assert own.next_event(0.2) is None
    for link in (own, other):
        link.stop()


def test_without_a_certificate_nobody_gets_in(fleet: Fleet) -> None:
    assert "client certificate" in refused(fleet.config(None, None))


def test_the_certificate_of_another_authority_is_refused(fleet: Fleet, tmp_path: Path) -> None:
    with open_authority(tmp_path / "ca", "garden", days=10) as forged:
        assert refused(fleet.issued(forged, "pi-01", days=5))
    assert eventually(lambda: "certificate verify failed" in fleet.broker.log or "unknown ca" in fleet.broker.log)


def test_an_expired_certificate_is_refused(fleet: Fleet) -> None:
    with open_authority(authority_folder(fleet.manifest.out), "garden") as authority:
        config = fleet.issued(authority, "expired", days=-0.1)
    assert "expired" in refused(config, "expired")


def test_the_brokers_own_certificate_is_no_clients(fleet: Fleet) -> None:
    made = fleet.manifest.out / "_fleet" / "broker"
    assert refused(fleet.config(made / "broker.pem", made / "broker.key"))


def test_a_device_does_not_take_another_for_the_broker(fleet: Fleet, tmp_path: Path) -> None:
    """A stolen kit cannot be used to play the broker."""
    stolen = fleet.manifest.out / "pi-02" / "tls"
    lines = [f"cafile {stolen / 'ca.pem'}", f"certfile {stolen / 'device.pem'}", f"keyfile {stolen / 'device.key'}"]
    with Mosquitto(tmp_path / "m", lines) as impostor:
        config = fleet.kit("pi-01")
        config = BrokerConfig(port=impostor.port, tls=config.tls)
        assert "certificate" in refused(config)


def test_a_revoked_device_is_refused_once_the_broker_has_the_list(tmp_path: Path) -> None:
    made = manifest(tmp_path)
    provision(made)
    with Provisioned(tmp_path / "mosquitto", made.out) as broker:
        fleet = Fleet(made, broker, tmp_path)
        connected(Link(fleet.kit("pi-01"), client_id="pi-01", filters=[])).stop()
        with open_authority(authority_folder(made.out), "garden") as authority:
            authority.revoke("pi-01")
            authority.save()
            shutil.copy(publish_revocations(made.out, authority), broker.files)
        broker.reload()
        assert eventually(lambda: "Reloading config" in broker.log)
        assert "revoked" in refused(fleet.kit("pi-01"))
        connected(Link(fleet.kit("pi-02"), client_id="pi-02", filters=[])).stop()


def test_the_form_for_2_1_has_the_list_in_a_plugin() -> None:
    old, new = conf("2.0", port=8883), conf("2.1", port=8883)
    assert "\nacl_file /etc/mosquitto/edgestill/acl\n" in old
    assert "acl_file" not in new.replace("plugin_opt_acl_file", "").replace("mosquitto_acl_file.so", "")
    assert "\nplugin /usr/lib/mosquitto_acl_file.so\nplugin_opt_acl_file /etc/mosquitto/edgestill/acl\n" in new
    assert "readwrite edgestill/1/garden/#" in acl("garden")
