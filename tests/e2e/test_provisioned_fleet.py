"""A fleet from its manifest alone: its kits complete a round over TLS, whatever others try meanwhile."""

import time
from pathlib import Path

import numpy as np
import pytest

from aggregator.config import load_fleet_config
from aggregator.journal import Journal
from firmware_configs.ca import open_authority
from firmware_configs.manifest import load_manifest
from firmware_configs.provision import authority_folder, provision, publish_revocations
from fleet.processes import Processes
from tests.brokers import free_port
from tests.e2e.fleets import toy
from tests.firmware_configs.brokers import Provisioned
from tests.transport.events import connected, eventually
from transport.config import BrokerConfig, TlsConfig
from transport.link import Link

FLEET = """
[fleet]
id = "garden"
[broker]
port = {port}
[broker.tls]
ca = "kits/_fleet/aggregator/ca.pem"
cert = "kits/_fleet/aggregator/aggregator.pem"
key = "kits/_fleet/aggregator/aggregator.key"
[devices]
keys_dir = "kits/_fleet/devices"
[state]
dir = "state"
key = "aggregator.key"
[task]
input_shape = [1, 8, 8]
classes = 3
latent = 8
[prototypes]
names = ["mlp:fp32"]
[round]
rounds = 1
min_devices = 2
[train]
steps = 2
[provision]
[[group]]
name = "pi"
board = "rpi-4"
count = 3
prototype = "mlp:fp32"
"""


@pytest.mark.broker
def test_kits_complete_a_round_while_a_revoked_and_a_forging_device_are_kept_out(tmp_path: Path) -> None:
    port, data = free_port(), toy()
    (tmp_path / "fleet.toml").write_text(FLEET.format(port=port))
    np.savez(tmp_path / "samples.npz", x=data.x_train, y=data.y_train)
    kits = load_manifest(tmp_path / "fleet.toml", environ={}).out
    provision(load_manifest(tmp_path / "fleet.toml", environ={}))
    with open_authority(authority_folder(kits), "garden") as authority:
        authority.revoke("pi-03")
        authority.save()
        publish_revocations(kits, authority)
    broker = Provisioned(tmp_path / "mosquitto", kits)
    broker.port = port
    children = Processes(tmp_path)
    with broker:
        tls = kits / "pi-02" / "tls"
        config = TlsConfig(ca=tls / "ca.pem", cert=tls / "device.pem", key=tls / "device.key")
        forger = connected(Link(BrokerConfig(port=port, tls=config), client_id="forger", filters=[]))
        try:
            children.start("aggregator", ["aggregator", "serve", "--config", "fleet.toml", "--until-done"])
            for device in ("pi-01", "pi-02", "pi-03"):
                settings = [f"agent.state_dir={tmp_path / device}", f"data.path={tmp_path / 'samples.npz'}"]
                flags = [word for text in (*settings, "train.threads=1") for word in ("--set", text)]
                children.start(device, ["agent", "run", "--config", f"kits/{device}/agent.toml", *flags])
            until = time.monotonic() + 240
            while not children.ended("aggregator"):
                for leaf in ("state", "about", "up/00/0", "job"):  # pi-02's certificate, pi-01's topics
                    forger.publish(f"edgestill/1/garden/pi-01/{leaf}", b"forged")
                assert time.monotonic() < until, children.last_line("aggregator")
                time.sleep(0.5)
            children.check()
            assert eventually(lambda: "has been revoked" in (tmp_path / "pi-03.log").read_text())
        finally:
            forger.stop()
            children.stop()
        assert "Denied PUBLISH from forger" in broker.log
    journal = Journal(load_fleet_config(tmp_path / "fleet.toml", environ={}).state / "journal.db", read_only=True)
    assert journal.completed() == 1
    assert sorted(update.device for update in journal.updates(1)) == ["pi-01", "pi-02"]
    journal.close()
