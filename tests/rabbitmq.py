"""Debian's RabbitMQ with its MQTT plugin, as a broker for tests: a node of its own, on loopback alone.

    with RabbitMQ(folder) as broker: Link(broker.config, ...)
    broker.control("add_user", "pi-01", "-")

Its port mapper, epmd, is a child of this process too: left to itself, Erlang starts one that listens on all addresses
and outlives its nodes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.ports import free_port
from transport.config import BrokerConfig, TlsConfig

__all__ = ["RABBITMQ", "RabbitMQ"]

SCRIPTS = Path("/usr/lib/rabbitmq/bin")  # Debian's; those in /usr/sbin change to the user rabbitmq
RABBITMQ = SCRIPTS / "rabbitmq-server"
START_S = 120.0
HOST = "127.0.0.1"


class RabbitMQ:
    """One node with the MQTT plugin; `tls` makes it ask for client certificates, whose common names are the users."""

    def __init__(self, folder: Path, lines: Sequence[str] = (), *, tls: Authority | None = None) -> None:
        epmd = shutil.which("epmd")
        if not RABBITMQ.is_file() or epmd is None:
            pytest.skip("*** NO RABBITMQ ON THIS MACHINE (apt install rabbitmq-server): IT IS NOT TESTED ***")
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.lines, self.authority, self._epmd = folder, lines, tls, epmd
        self.port = 0
        self._children: list[subprocess.Popen[bytes]] = []  # epmd, the node
        self._environment: dict[str, str] = {}

    @property
    def config(self) -> BrokerConfig:
        if self.authority is None:
            return BrokerConfig(port=self.port)
        cert, key = self.authority.issue("device")
        return BrokerConfig(port=self.port, tls=TlsConfig(ca=self.authority.ca, cert=cert, key=key))

    @property
    def log(self) -> str:
        return (self.folder / "rabbitmq.log").read_text(errors="replace")

    def start(self) -> None:
        """Listen; the first time on a free port, then on the same one."""
        asked = self.port
        for _ in range(3):
            self.port = asked or free_port()
            if self._try_start(free_port(), free_port()):
                return
        pytest.fail(f"RabbitMQ does not start: {self.log[-2000:]}")

    def stop(self) -> None:
        """End the node, then its port mapper."""
        while self._children:
            child = self._children.pop()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGTERM)
            try:
                child.wait(START_S)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)

    def __enter__(self) -> RabbitMQ:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def control(self, *arguments: str, given: str = "") -> str:
        """What `rabbitmqctl ARGUMENTS` prints."""
        command = [SCRIPTS / "rabbitmqctl", "--quiet", "--node", self._environment["RABBITMQ_NODENAME"], *arguments]
        done = subprocess.run(
            command, env=self._environment, input=given, capture_output=True, text=True, timeout=START_S, check=False
        )
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def _conf(self) -> str:
        lines = ["listeners.tcp = none", "log.console = true", "log.file = false", "disk_free_limit.absolute = 1MB"]
        if self.authority is None:
            return "\n".join([*lines, f"mqtt.listeners.tcp.1 = {HOST}:{self.port}", *self.lines, ""])
        cert, key = self.authority.issue(HOST)
        files = {"cacertfile": self.authority.ca, "certfile": cert, "keyfile": key}
        lines += [f"ssl_options.{name} = {path}" for name, path in files.items()]
        lines += ["ssl_options.verify = verify_peer", "ssl_options.fail_if_no_peer_cert = true"]
        lines += ["mqtt.ssl_cert_login = true", "ssl_cert_login_from = common_name", "mqtt.allow_anonymous = false"]
        lines += ["mqtt.listeners.tcp = none", f"mqtt.listeners.ssl.1 = {HOST}:{self.port}"]
        return "\n".join([*lines, *self.lines, ""])

    def _try_start(self, mapper: int, distribution: int) -> bool:
        (self.folder / "rabbitmq.conf").write_text(self._conf())
        (self.folder / "enabled_plugins").write_text("[rabbitmq_mqtt].\n")
        self._environment = self._variables(mapper, distribution)
        for command in ([self._epmd, "-address", HOST, "-port", str(mapper)], [RABBITMQ]):
            with (self.folder / "rabbitmq.log").open("ab") as log:
                child = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log, start_new_session=True)
            self._children.append(child)
        node, until = self._children[-1], time.monotonic() + START_S
        while node.poll() is None and time.monotonic() < until:
            with contextlib.suppress(OSError):
                socket.create_connection((HOST, self.port), timeout=1).close()
                return True
            time.sleep(0.05)
        self.stop()
        return False

    def _variables(self, mapper: int, distribution: int) -> dict[str, str]:
        """Everything that it would otherwise look for in /etc/rabbitmq, /var and the home directory."""
        folder = self.folder
        own = {
            "HOME": folder,  # of the Erlang cookie
            "ERL_EPMD_ADDRESS": HOST,
            "ERL_EPMD_PORT": mapper,
            "RABBITMQ_NODENAME": "edgestill@localhost",
            "RABBITMQ_DIST_PORT": distribution,
            "RABBITMQ_CONF_ENV_FILE": folder / "no-environment-file",
            "RABBITMQ_CONFIG_FILE": folder / "rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": folder / "enabled_plugins",
            "RABBITMQ_MNESIA_BASE": folder / "mnesia",
            "RABBITMQ_LOG_BASE": folder / "log",
            "RABBITMQ_PID_FILE": folder / "pid",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CTL_ERL_ARGS": "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}",
        }
        return {**os.environ, **{name: str(value) for name, value in own.items()}}
