"""Two fleets on one machine: each has a Mosquitto of its own, and neither sees anything of the other."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from core.errors import ConfigError
from firmware_configs.broker.install import InstallOptions, install_broker
from firmware_configs.broker.uninstall import uninstall_broker
from firmware_configs.manifest import Manifest
from firmware_configs.provision import provision
from firmware_configs.services.systemd import Systemd
from tests.brokers import MOSQUITTO, free_port
from tests.firmware_configs.broker.test_install import can_be_another, etc, files_of, listens
from tests.firmware_configs.fleets import FLEET, manifest
from tests.firmware_configs.kits.test_unit import analyze, needs_systemd
from tests.transport.events import connected, eventually, wait_for
from transport.config import BrokerConfig, TlsConfig
from transport.link import Disconnected, Link, Received

__all__ = ["etc"]  # the fixture

pytestmark = [pytest.mark.light, pytest.mark.broker]
needs_mosquitto = pytest.mark.skipif(not can_be_another(), reason="only root starts a Mosquitto that becomes another")
BASE = "edgestill/1"


@pytest.fixture
def fleets(tmp_path: Path) -> dict[str, Manifest]:
    """Two fleets with devices of the same names, on different ports."""
    made = {}
    for name in ("garden", "roof"):
        folder = tmp_path / name
        folder.mkdir()
        text = FLEET.replace('"garden"', f'"{name}"') + f"\n[broker]\nhost = '127.0.0.1'\nport = {free_port()}\n"
        made[name] = manifest(folder, fleet=text)
        provision(made[name])
    return made


def options(etc: Path, **changes: object) -> InstallOptions:
    (etc / "units").mkdir(exist_ok=True)
    given: dict[str, Any] = {"to": etc, "program": Path(MOSQUITTO or ""), "service": True, "units": etc / "units"}
    return InstallOptions(**{**given, **changes})


@contextmanager
def served(etc: Path, name: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Runs the command of the installed unit, as its user."""
    unit = (etc / "units" / f"edgestill-broker-{name}.service").read_text()
    command = shlex.split(re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)[0])
    user = re.findall(r"^User=(.*)$", unit, re.MULTILINE)[0]
    with (etc / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, user=user, group=user)
    try:
        assert eventually(lambda: process.poll() is not None or listens(port), 120)
        assert process.poll() is None, (etc / f"{name}.log").read_text()
        yield process
    finally:
        process.terminate()
        process.wait(120)


def link(made: Manifest, name: str, *, port: int | None = None, ca: Manifest | None = None, topics: str = "#") -> Link:
    """A client with the certificate of a device of the fleet, or of its aggregator."""
    tls = made.out / "_fleet" / "aggregator" if name == "aggregator" else made.out / name / "tls"
    stem = name if name == "aggregator" else "device"
    trusted = (ca or made).out / "_fleet" / "aggregator" / "ca.pem"
    config = TlsConfig(ca=trusted, cert=tls / f"{stem}.pem", key=tls / f"{stem}.key")
    return Link(BrokerConfig(port=port or made.port, tls=config, keepalive_s=5), client_id=name, filters=[topics])


@needs_mosquitto
def test_fleets_on_one_machine_are_isolated(fleets: dict[str, Manifest], etc: Path) -> None:
    garden, roof = fleets["garden"], fleets["roof"]
    for made in (garden, roof):
        said = install_broker(files_of(made), options(etc)).lines
        assert said[-1] == f"start it, now and at every boot: sudo systemctl enable --now edgestill-broker-{made.fleet}"
    with ExitStack() as stack:
        for made in (garden, roof):
            stack.enter_context(served(etc, made.fleet, made.port))
        # clients of the same names are connected to both at the same time, and stay so
        mine, theirs = connected(link(garden, "pi-01")), connected(link(roof, "pi-01"))
        one, other = connected(link(garden, "aggregator")), connected(link(roof, "aggregator"))
        for client in (mine, theirs, one, other):
            stack.callback(client.stop)
        # what a device of the garden writes to topics of the roof is refused, and reaches nobody
        for topic in (f"{BASE}/roof/pi-01/state", f"{BASE}/roof/pi-02/up", f"{BASE}/roof/all/model/x/1"):
            assert mine.publish(topic, b"intruder", retain=True)
        assert mine.publish(f"{BASE}/garden/pi-01/state", b"mine", retain=True)
        assert theirs.publish(f"{BASE}/roof/pi-01/state", b"theirs", retain=True)
        assert until(one, f"{BASE}/garden/pi-01/state") == [(f"{BASE}/garden/pi-01/state", b"mine")]
        assert until(other, f"{BASE}/roof/pi-01/state") == [(f"{BASE}/roof/pi-01/state", b"theirs")]
        # nor does it read anything of the roof, although it has subscribed to everything
        assert other.publish(f"{BASE}/roof/pi-01/job", b"secret", retain=True)
        assert until(theirs, f"{BASE}/roof/pi-01/job")[-1] == (f"{BASE}/roof/pi-01/job", b"secret")
        assert one.publish(f"{BASE}/garden/pi-01/job", b"own", retain=True)
        assert [topic for topic, _ in until(mine, f"{BASE}/garden/pi-01/job")] == [
            f"{BASE}/garden/pi-01/state",
            f"{BASE}/garden/pi-01/job",
        ]
        # and its certificate, or that of its aggregator, opens no connection to the other broker
        for name in ("pi-01", "aggregator"):
            with link(garden, name, port=roof.port, ca=roof) as intruder:
                refused = wait_for(intruder, Disconnected, 120)
                assert "certificate" in refused.reason or "unknown ca" in refused.reason.lower(), refused.reason
        for client in (mine, theirs, one, other):
            left = list(iter(lambda client=client: client.next_event(0.0), None))
            assert all(isinstance(event, Received) for event in left), "somebody was disconnected meanwhile"


def until(client: Link, topic: str) -> list[tuple[str, bytes]]:
    """What arrives up to a message with this topic."""
    found = []
    while not found or found[-1][0] != topic:
        message = wait_for(client, Received, 120)
        found.append((message.topic, message.payload))
    return found


@needs_mosquitto
@needs_systemd
def test_the_installed_unit_is_one_that_systemd_takes(fleets: dict[str, Manifest], etc: Path) -> None:
    install_broker(files_of(fleets["roof"]), options(etc))
    unit = etc / "units" / "edgestill-broker-roof.service"
    verified = analyze("verify", str(unit))
    assert (verified.returncode, verified.stderr) == (0, "")
    assert f"ExecStart={MOSQUITTO} -c {etc}/edgestill-roof.conf\n" in unit.read_text()
    assert oct(unit.stat().st_mode & 0o777) == "0o644"


@needs_mosquitto
def test_a_revocation_reloads_the_broker_of_its_fleet_alone(fleets: dict[str, Manifest], etc: Path) -> None:
    for made in fleets.values():
        install_broker(files_of(made), options(etc))
    with served(etc, "garden", fleets["garden"].port), served(etc, "roof", fleets["roof"].port) as running:
        assert install_broker(files_of(fleets["roof"]), options(etc)).lines[-1] == (
            f"Mosquitto (process {running.pid}) has read them again"
        )
    assert pwd.getpwuid((etc / "edgestill-roof" / "broker.key").stat().st_uid).pw_name == "mosquitto"


def here(etc: Path, **changes: object) -> InstallOptions:
    """Nobody has to be root."""
    return options(etc, owner="", form="2.0", trial=False, program=Path("/bin/true"), **changes)


def test_a_second_fleet_never_replaces_the_first(fleets: dict[str, Manifest], etc: Path) -> None:
    install_broker(files_of(fleets["garden"]), here(etc, service=False, units=None))
    with pytest.raises(ConfigError, match=r"/edgestill is the broker of fleet garden; fleet roof needs .* --service$"):
        install_broker(files_of(fleets["roof"]), here(etc, service=False, units=None))
    install_broker(files_of(fleets["roof"]), here(etc))
    assert f"user aggregator\ntopic readwrite {BASE}/garden/#" in (etc / "edgestill/acl").read_text()
    assert f"user aggregator\ntopic readwrite {BASE}/roof/#" in (etc / "edgestill-roof/acl").read_text()
    assert f"cafile {etc}/edgestill-roof/ca.pem" in (etc / "edgestill-roof.conf").read_text()


def test_two_fleets_cannot_have_one_port(fleets: dict[str, Manifest], etc: Path) -> None:
    install_broker(files_of(fleets["garden"]), here(etc))
    conf = files_of(fleets["roof"]) / "mosquitto-2.0.conf"
    text = re.sub(r"^listener \d+", f"listener {fleets['garden'].port}", conf.read_text(), flags=re.MULTILINE)
    conf.write_text(text)
    error = rf"^port {fleets['garden'].port} is that of {etc}/edgestill-garden.conf; give fleet roof another one"
    with pytest.raises(ConfigError, match=error):
        install_broker(files_of(fleets["roof"]), here(etc))
    install_broker(files_of(fleets["garden"]), here(etc))  # its own port is no obstacle
    assert not (etc / "edgestill-roof").exists()


def test_a_dry_run_of_a_service_changes_nothing(fleets: dict[str, Manifest], etc: Path) -> None:
    (line,) = install_broker(files_of(fleets["roof"]), here(etc, dry_run=True)).lines
    assert line.endswith(f"and {etc}/units/edgestill-broker-roof.service")
    assert os.listdir(etc / "units") == []


def test_what_was_installed_is_removed_and_nothing_else(fleets: dict[str, Manifest], etc: Path) -> None:
    systemd = Systemd(etc / "units", control=False)
    install_broker(files_of(fleets["garden"]), here(etc, service=False, units=None))
    install_broker(files_of(fleets["roof"]), here(etc))
    before = sorted(path.name for path in etc.iterdir())
    assert len(uninstall_broker("roof", to=etc, systemd=systemd, dry_run=True)) == 3
    assert sorted(path.name for path in etc.iterdir()) == before
    assert uninstall_broker("roof", to=etc, systemd=systemd) == [
        f"removed {etc}/units/edgestill-broker-roof.service",
        f"removed {etc}/edgestill-roof.conf",
        f"removed {etc}/edgestill-roof",
    ]
    assert os.listdir(etc / "units") == []
    assert (etc / "edgestill" / "acl").is_file()
    assert len(list(etc.glob(".edgestill-*"))) == 1
    with pytest.raises(ConfigError, match=r"has no broker of fleet roof; give --to, or the fleet.toml .*$"):
        uninstall_broker("roof", to=etc, systemd=systemd)
    assert uninstall_broker("garden", to=etc, systemd=systemd)[-1].startswith("restart Mosquitto")
    shutil.rmtree(etc / "units")
    assert sorted(path.name for path in etc.iterdir()) == ["conf.d", "mosquitto.conf", "run"]
    assert os.listdir(etc / "conf.d") == []
