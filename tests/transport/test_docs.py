"""The Mosquitto configuration that docs/brokers.md recommends, run as it stands there."""

import re
from pathlib import Path

import pytest

import transport
from core.config_keys import read_toml
from tests.brokers import Mosquitto
from tests.certificates import Authority
from tests.transport.events import connected, eventually, messages, wait_for
from transport.config import BrokerConfig, TlsConfig, broker_config
from transport.link import Disconnected, Link, Received
from wire.topics import agent_filters, aggregator_filters

pytestmark = [pytest.mark.light, pytest.mark.broker]
TEXT = (Path(transport.__file__).resolve().parents[1] / "docs" / "brokers.md").read_text()


def block(language: str, at: int = 0) -> str:
    """The text of a fence of the page, by its place among those of its language."""
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    return found[at]


class Documented(Mosquitto):
    """The documented files, with this test's port and folder."""

    def _conf(self) -> str:
        assert self.authority is not None
        cert, key = self.authority.issue("127.0.0.1")
        places = {
            "listener 8883": f"listener {self.port} 127.0.0.1\nuser root",
            "/etc/mosquitto/edgestill/ca.crt": str(self.authority.ca),
            "/etc/mosquitto/edgestill/broker.crt": str(cert),
            "/etc/mosquitto/edgestill/broker.key": str(key),
            "/etc/mosquitto/edgestill/acl": str(self.folder / "acl"),
        }
        (self.folder / "acl").write_text(block("acl"))
        conf = block("conf")
        for documented, here in places.items():
            assert documented in conf
            conf = conf.replace(documented, here)
        return conf


def test_a_device_can_say_and_hear_what_is_its_own_and_nothing_else(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")

    with Documented(tmp_path / "m", tls=authority) as broker:

        def named(name: str, filters: list[str]) -> Link:
            cert, key = authority.issue(name)
            tls = TlsConfig(ca=authority.ca, cert=cert, key=key)
            return connected(Link(BrokerConfig(port=broker.port, tls=tls), client_id=name, filters=filters))

        base = "edgestill/1/home"
        aggregator = named("aggregator", list(aggregator_filters("home")))
        pi7 = named("pi-07", list(agent_filters("home", "pi-07")))
        curious = named("pi-08", [f"{base}/pi-07/job", f"{base}/pi-07/state", f"{base}/pi-08/job"])
        for leaf in ("state", "about", "metrics", "up"):
            assert pi7.publish(f"{base}/pi-07/{leaf}", b"mine")
        assert [m.payload for m in messages(aggregator, 4)] == [b"mine"] * 4
        assert wait_for(pi7, Received).topic == f"{base}/pi-07/state"  # its own voice, to contradict a late will
        assert curious.publish(f"{base}/pi-07/state", b"forged")
        assert curious.publish(f"{base}/pi-07/job", b"forged")
        assert curious.publish(f"{base}/all/model/{'0' * 64}/0", b"forged")
        assert eventually(lambda: curious.pending() == 0)
        assert aggregator.publish(f"{base}/pi-07/job", b"job 7", retain=True)
        assert wait_for(pi7, Received).payload == b"job 7"
        assert aggregator.publish(f"{base}/pi-08/job", b"job 8")
        assert wait_for(curious, Received).payload == b"job 8"
        assert aggregator.publish(f"{base}/all/model/{'a' * 64}/0", b"chunk", retain=True)
        assert pi7.subscribe([f"{base}/all/model/{'a' * 64}/0"])
        assert wait_for(pi7, Received).payload == b"chunk"
        for link in (aggregator, pi7, curious):
            event = link.next_event(0.2)
            assert event is None, event
            link.stop()


def test_the_documented_table_is_a_valid_one(tmp_path: Path) -> None:
    for name in ("ca.crt", "pi-07.crt", "pi-07.key"):
        (tmp_path / name).touch()
    (tmp_path / "a.toml").write_text(block("toml"))
    config = broker_config(read_toml(tmp_path / "a.toml")["broker"], "a.toml [broker]", tmp_path, environ={})
    assert (config.host, config.port, config.protocol) == ("broker.example", 8883, "auto")
    assert config.tls is not None


def test_without_a_certificate_nobody_gets_in(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    with Documented(tmp_path / "m", tls=authority) as broker:
        config = BrokerConfig(port=broker.port, tls=TlsConfig(ca=authority.ca))
        with Link(config, client_id="pi-07", filters=[]) as link:
            assert "the broker wants a client certificate" in wait_for(link, Disconnected).reason
