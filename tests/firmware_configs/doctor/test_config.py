"""A kit is checked from its keys to its broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_agent.config import read_agent_config
from firmware_configs.doctor.config import check_config
from firmware_configs.doctor.findings import Finding
from firmware_configs.provision import provision
from tests.brokers import free_port
from tests.firmware_configs.brokers import Provisioned
from tests.firmware_configs.fleets import manifest

pytestmark = pytest.mark.light


def checked(config: Path) -> dict[str, Finding]:
    return {finding.what: finding for finding in check_config(read_agent_config(config), config.parent)}


@pytest.mark.broker
def test_a_kit_is_checked_up_to_its_broker(tmp_path: Path) -> None:
    port = free_port()
    made = manifest(tmp_path, provision=f"port = {port}")
    provision(made)
    config = made.out / "pi-01" / "agent.toml"
    absent = checked(config)
    assert absent["broker"].level == "failure"
    assert "refused" in absent["broker"].said
    assert absent["samples"].level == "warning"  # it lies on the board, not here
    assert {f.what for f in absent.values() if f.level == "ok"} == {
        *("config", "signing key", "aggregator's key", "certificate")
    }
    broker = Provisioned(tmp_path / "mosquitto", made.out)
    broker.port = port
    with broker:
        reached = checked(config)
    assert reached["broker"].level == "ok", reached["broker"].said


def test_a_key_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    made = manifest(tmp_path, provision=f"port = {free_port()}")
    provision(made)
    (made.out / "pi-01/device.key").write_bytes(b"rot")
    found = checked(made.out / "pi-01" / "agent.toml")
    assert (found["signing key"].level, found["aggregator's key"].level) == ("failure", "ok")
