"""Brokers for tests, on free loopback ports: a real Mosquitto, our embedded one, and a RabbitMQ (tests/rabbitmq.py).

from tests.brokers import broker  # noqa: F401   (in a conftest.py: a fixture that runs a test on each)

def test_it(broker):
    link = Link(broker.config, ...)
    broker.stop(); broker.start()     # on the same port
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from tests.certificates import Authority
from tests.ports import free_port
from tests.rabbitmq import RabbitMQ
from transport.config import BrokerConfig, TlsConfig
from transport.embedded import EmbeddedBroker

#: EDGESTILL_TEST_MOSQUITTO: another one than this machine's own, such as a newer version.
MOSQUITTO = (
    os.environ.get("EDGESTILL_TEST_MOSQUITTO")
    or shutil.which("mosquitto")
    or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
)
DEFAULTS_2_1 = ("max_packet_size 2000000", "max_queued_messages 1000")  # the defaults of Mosquitto 2.1, also for 2.0
BOTH = ("mosquitto", "embedded")


class Broker(Protocol):
    """What tests may do to a broker."""

    @property
    def port(self) -> int: ...
    @property
    def config(self) -> BrokerConfig: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...


def mosquitto_version() -> tuple[int, int]:
    """Of MOSQUITTO, such as (2, 0)."""
    assert MOSQUITTO is not None
    said = subprocess.run([MOSQUITTO, "-h"], capture_output=True, text=True, check=False)
    said = said.stdout + said.stderr
    found = re.search(r"mosquitto version (\d+)\.(\d+)", said)
    assert found is not None, said
    return int(found[1]), int(found[2])


class Mosquitto:
    """A Mosquitto of its own, with Mosquitto 2.1's limits; `tls` makes it ask for client certificates."""

    def __init__(
        self,
        folder: Path,
        lines: Sequence[str] = DEFAULTS_2_1,
        *,
        tls: Authority | None = None,
        anonymous: bool = True,
    ) -> None:
        if MOSQUITTO is None:
            pytest.skip("*** NO MOSQUITTO ON THIS MACHINE: THE BROKER TESTS DO NOT RUN ***")
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.lines, self.authority, self.anonymous = folder, lines, tls, anonymous
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def config(self) -> BrokerConfig:
        if self.authority is None:
            return BrokerConfig(port=self.port)
        cert, key = self.authority.issue("device")
        return BrokerConfig(port=self.port, tls=TlsConfig(ca=self.authority.ca, cert=cert, key=key))

    @property
    def log(self) -> str:
        return (self.folder / "mosquitto.log").read_text()

    def start(self) -> None:
        """Listen; the first time on a free port, then on the same one."""
        asked = self.port
        for _ in range(5):
            self.port = asked or free_port()
            if self._try_start():
                return
        pytest.fail(f"mosquitto does not start: {self.log}")

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def __enter__(self) -> Mosquitto:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _conf(self) -> str:
        lines = [f"listener {self.port} 127.0.0.1", "user root", "persistence false"]
        lines += [f"allow_anonymous {str(self.anonymous).lower()}"]
        if self.authority is not None:
            cert, key = self.authority.issue("127.0.0.1")
            lines += [f"cafile {self.authority.ca}", f"certfile {cert}", f"keyfile {key}", "require_certificate true"]
        return "\n".join([*lines, *self.lines, ""])

    def _try_start(self) -> bool:
        assert MOSQUITTO is not None
        conf = self.folder / "mosquitto.conf"
        conf.write_text(self._conf())
        with (self.folder / "mosquitto.log").open("ab") as log:
            self._process = subprocess.Popen([MOSQUITTO, "-c", str(conf)], stdout=log, stderr=log)
        until = time.monotonic() + 60
        while self._process.poll() is None and time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return True
            except OSError:
                time.sleep(0.02)
        self._end(signal.SIGKILL)
        return False

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        for _ in range(120):  # Mosquitto listens before its loop runs, and loses a SIGTERM that comes in between
            self._process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
                self._process = None
                return
        pytest.fail(f"mosquitto does not end: {self.log}")


class Embedded:
    """Our embedded broker, which keeps its port when it is started again."""

    def __init__(self) -> None:
        pytest.importorskip("amqtt", reason="*** NO AMQTT IN THIS ENVIRONMENT: THE EMBEDDED BROKER IS NOT TESTED ***")
        self.port = 0
        self._broker: EmbeddedBroker | None = None

    @property
    def config(self) -> BrokerConfig:
        return BrokerConfig(port=self.port)

    def start(self) -> None:
        self.port = self.port or free_port()
        self._broker = EmbeddedBroker(self.port)
        self._broker.start()

    def stop(self) -> None:
        if self._broker is not None:
            self._broker.stop()
            self._broker = None

    def __enter__(self) -> Embedded:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _embedded(_folder: Path) -> Embedded:
    return Embedded()


MAKERS = {"mosquitto": Mosquitto, "embedded": _embedded, "rabbitmq": RabbitMQ}
RABBITMQ_MARKS = (pytest.mark.broker, pytest.mark.slow)  # a node takes ten seconds to start


@pytest.fixture(
    params=[
        pytest.param("mosquitto", marks=pytest.mark.broker),
        "embedded",
        pytest.param("rabbitmq", marks=RABBITMQ_MARKS),
    ]
)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """Each test runs on a Mosquitto, on the embedded broker and, as a slow one, on a RabbitMQ."""
    with MAKERS[request.param](tmp_path / request.param) as started:
        yield started


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Mosquitto]:
    """For what only a full broker can do."""
    with Mosquitto(tmp_path / "mosquitto") as started:
        yield started
