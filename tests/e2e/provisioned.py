"""A fleet from its manifest, the broker that was provisioned with it, and their processes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from aggregator.storage.journal import Journal
from core.errors import ConfigError
from core.processes.process import last_line
from firmware_configs.manifest import load_manifest
from firmware_configs.provision import provision
from fleet.mqtt.processes import Processes
from tests.brokers import free_port
from tests.e2e.fleets import TIMEOUT
from tests.firmware_configs.brokers import Provisioned
from tests.firmware_configs.fleets import write_served
from transport.config import BrokerConfig, TlsConfig
from transport.link import Link
from wire.ids import AGGREGATOR

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

    def start(self, device: str, name: str | None = None, **environment: str) -> None:
        """The agent of a device's kit, with its state in the folder `name`."""
        name = name or device
        settings = [f"agent.state_dir={self.folder / name}", "train.threads=1", "train.nice=0"]
        flags = [word for text in settings for word in ("--set", text)]
        self.children.start(name, ["agent", "run", "--config", f"kits/{device}/agent.toml", *flags], environment)

    def link(self, name: str, cert: Path | None, key: Path | None, filters: tuple[str, ...] = ()) -> Link:
        tls = TlsConfig(ca=self.kits / "_fleet" / AGGREGATOR / "ca.pem", cert=cert, key=key)
        return Link(BrokerConfig(port=self.broker.port, tls=tls), client_id=name, filters=filters)

    def as_device(self, name: str, device: str, filters: tuple[str, ...] = ()) -> Link:
        tls = self.kits / device / "tls"
        return self.link(name, tls / "device.pem", tls / "device.key", filters)

    def edgestill(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of the operator's."""
        command = [sys.executable, "-m", "edgestill", *arguments, "--config", str(self.folder / "fleet.toml")]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def journal(self) -> Journal:
        return Journal(self.folder / "state" / "journal.db", read_only=True)

    def until(self, true: Callable[[Journal], bool]) -> None:
        """Wait until the journal says so."""
        until = time.monotonic() + TIMEOUT
        while time.monotonic() < until:
            with suppress(ConfigError), closing(self.journal()) as journal:  # it may not be there yet
                if true(journal):
                    return
            assert self.children.running["aggregator"].poll() in (None, 0), last_line(self.folder / "aggregator.log")
            time.sleep(0.1)
        raise AssertionError(last_line(self.folder / "aggregator.log"))


@contextmanager
def provisioned(folder: Path, **parts: object) -> Iterator[Fleet]:
    """The fleet of `write_served`, provisioned; its broker is not started, its processes are stopped at the end."""
    port = free_port()
    manifest = load_manifest(write_served(folder, port, **parts), environ={})
    provision(manifest)
    broker = Provisioned(folder / "mosquitto", manifest.out)
    broker.port = port
    children = Processes(folder)
    try:
        yield Fleet(folder, broker, children)
    finally:
        children.stop()
        broker.stop()
