"""The broker is checked, and the running agent stays connected."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.settings import replace
from edge_agent.config import AgentConfig, read_agent_config
from edge_agent.state.store import Store
from firmware_configs.doctor import connection
from firmware_configs.doctor.connection import check_agent, check_broker, check_certificate
from firmware_configs.identity.ca import open_authority
from firmware_configs.identity.identities import make_tls
from firmware_configs.provision import authority_folder, provision
from tests.brokers import Mosquitto, free_port
from tests.firmware_configs.brokers import Provisioned
from tests.firmware_configs.fleets import manifest
from transport.link import Connected, Link

pytestmark = pytest.mark.light


@pytest.fixture
def kits(tmp_path: Path) -> Path:
    made = manifest(tmp_path, provision=f"port = {free_port()}")
    provision(made)
    return made.out


@pytest.fixture
def served(kits: Path, tmp_path: Path) -> Iterator[AgentConfig]:
    config = read_agent_config(kits / "pi-01" / "agent.toml")
    broker = Provisioned(tmp_path / "mosquitto", kits)
    broker.port = config.broker.port
    with broker:
        yield config


@pytest.mark.broker
def test_an_agent_that_is_connected_stays_so(served: AgentConfig) -> None:
    link = Link(served.broker, client_id=f"edgestill-{served.fleet}-{served.device}", filters=[])
    link.start()
    try:
        assert isinstance(link.next_event(60), Connected)
        for _ in range(3):
            found = check_broker(served)
            assert (found.level, found.said.endswith("accepts this board's certificate")) == ("ok", True)
        assert link.next_event(1) is None  # neither disconnected nor connected again
    finally:
        link.stop()


@pytest.mark.broker
def test_a_certificate_that_the_broker_does_not_accept_is_told(served: AgentConfig, tmp_path: Path) -> None:
    with open_authority(tmp_path / "others", "garden", days=9) as authority:
        foreign = make_tls(authority, "pi-01", purpose="client", days=9)
    assert served.broker.tls is not None
    own = served.broker.tls
    for path, data in ((own.cert, foreign.cert), (own.key, foreign.key)):
        assert path is not None
        path.write_bytes(data)
    found = check_broker(served)
    assert found.level == "failure"
    assert "the broker does not trust the CA of our client certificate" in found.said


@pytest.mark.broker
def test_a_broker_without_tls_is_asked_for_its_version(kits: Path, tmp_path: Path) -> None:
    with Mosquitto(tmp_path / "plain") as plain:
        config = replace(read_agent_config(kits / "pi-01" / "agent.toml"), broker=plain.config)
        assert check_broker(config).said.endswith("answers, MQTT 5")
    (found,) = check_certificate(config)
    assert found.level == "warning"


@pytest.mark.parametrize(("days", "level"), [(-0.1, "failure"), (29, "warning"), (99, "ok")])
def test_a_certificate_that_ends_is_told(kits: Path, days: float, level: str) -> None:
    with open_authority(authority_folder(kits), "garden") as authority:
        tls = make_tls(authority, "pi-01", purpose="client", days=days)
    (kits / "pi-01/tls/device.pem").write_bytes(tls.cert)
    (found,) = check_certificate(read_agent_config(kits / "pi-01" / "agent.toml"))
    assert found.level == level
    assert ("provision --renew" in found.said) == (level != "ok")


@pytest.mark.parametrize(
    ("status", "level", "told"),
    [
        ("connected to broker.example:8883", "ok", "runs, connected to broker.example:8883"),
        ("looking for the broker", "warning", "runs, but is looking for the broker; journalctl -u edgestill-agent"),
        ("", "ok", "runs"),
    ],
)
def test_a_running_agent_tells_of_its_connection(
    status: str, level: str, told: str, kits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(read_agent_config(kits / "pi-01" / "agent.toml"), state_dir=tmp_path / "agent")
    assert list(check_agent(config)) == []
    monkeypatch.setattr(connection, "_status", lambda: status)
    store = Store(config.state_dir, prototype=config.prototype, cache_mb=config.cache_mb)
    (found,) = check_agent(config)
    store.close()
    assert found.level == level
    assert found.said.startswith(told)
    assert list(check_agent(config)) == []


def test_where_there_is_no_systemd_there_is_no_status(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("systemctl") is None
    assert connection._status() == ""
