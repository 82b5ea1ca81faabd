"""RabbitMQ with TLS and the access rights that docs/brokers.md recommends, run as they stand there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.rabbitmq import SCRIPTS, RabbitMQ
from tests.transport.events import connected, messages, wait_for
from tests.transport.test_docs import block
from transport.config import BrokerConfig, TlsConfig
from transport.link import Connected, Disconnected, Link, Received
from wire.topics import DeviceTopic, agent_filters, aggregator_filters

pytestmark = [pytest.mark.light, pytest.mark.broker, pytest.mark.slow]
FLEET = "garden"


class Documented(RabbitMQ):
    """The documented files, with this test's port and folder, and the documented users."""

    def _conf(self) -> str:
        assert self.authority is not None
        cert, key = self.authority.issue("127.0.0.1")
        conf = f"listeners.tcp = none\nlog.console = true\nlog.file = false\n{block('conf', 1)}"
        places = {
            "mqtt.listeners.ssl.1 = 8883": f"mqtt.listeners.ssl.1 = 127.0.0.1:{self.port}",
            "/etc/rabbitmq/edgestill/ca.crt": str(self.authority.ca),
            "/etc/rabbitmq/edgestill/broker.crt": str(cert),
            "/etc/rabbitmq/edgestill/broker.key": str(key),
        }
        for documented, here in places.items():
            assert documented in conf
            conf = conf.replace(documented, here)
        return conf

    def make_users(self) -> None:
        environment = {**self._environment, "PATH": f"{SCRIPTS}:{self._environment['PATH']}"}
        command = ["sh", "-ec", block("bash")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_device_can_say_and_hear_what_is_its_own_and_nothing_else(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    with Documented(tmp_path / "rabbitmq", tls=authority) as broker:
        broker.make_users()

        def named(name: str, client: str, filters: tuple[str, ...]) -> Link:
            cert, key = authority.issue(name)
            tls = TlsConfig(ca=authority.ca, cert=cert, key=key)
            will = None if name == "aggregator" else (topic(name, "state"), b"lost")
            return Link(BrokerConfig(port=broker.port, tls=tls), client_id=client, filters=filters, will=will)

        aggregator = connected(named("aggregator", f"edgestill-aggregator-{FLEET}", aggregator_filters(FLEET)))
        pi = connected(named("pi-01", f"edgestill-{FLEET}-pi-01", agent_filters(FLEET, "pi-01")))
        assert pi.publish(topic("pi-01", "up"), bytes(70_000), qos=0)
        assert messages(aggregator, 1)[0].topic == topic("pi-01", "up")
        assert aggregator.publish(topic("pi-01", "job"), b"work", retain=True)
        assert wait_for(pi, Received).payload == b"work"
        assert pi.publish(topic("pi-02", "state"), b"forged", retain=True)
        wait_for(pi, Disconnected)  # RabbitMQ ends the connection
        wait_for(pi, Connected)
        assert pi.publish(topic("pi-01", "state"), b"own", retain=True)
        states = [m.payload for m in messages(aggregator, 1)]
        while states[-1] != b"own":  # its will may come before
            states += [m.payload for m in messages(aggregator, 1)]
        assert b"forged" not in states
        pi.stop()
        spy = named("pi-02", f"edgestill-{FLEET}-pi-02", agent_filters(FLEET, "pi-01"))
        with spy:
            reason = wait_for(spy, Disconnected).reason
            assert "refuses to subscribe us" in reason or "closed the connection" in reason
        thief = named("pi-02", f"edgestill-{FLEET}-pi-01", agent_filters(FLEET, "pi-02"))
        with thief:  # another's queue
            wait_for(thief, Disconnected)
        aggregator.stop()


def topic(device: str, leaf: str) -> str:
    return str(DeviceTopic(FLEET, device, leaf))  # type: ignore[arg-type]
