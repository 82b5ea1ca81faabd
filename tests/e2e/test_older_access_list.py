"""A broker whose access list is of an older edgestill: what it denies is said with the remedy, not lost in silence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.provisioned import Fleet, provisioned
from tests.transport.events import eventually

REMEDY = "run `edgestill broker install` again"


def denied(fleet: Fleet) -> set[str]:
    """The topics that the agent was told of."""
    return set(re.findall(rf"refused a message on 'edgestill/1/garden/pi-01/(\w+)': .*{REMEDY}", fleet.said("pi-01")))


@pytest.mark.broker
def test_an_agent_notices_that_its_telemetry_and_its_log_are_denied(tmp_path: Path) -> None:
    with provisioned(tmp_path, count=1, devices=2) as fleet:  # too few for a round
        access = fleet.kits / "_fleet/broker/acl"
        kept = [line for line in access.read_text().splitlines() if not line.endswith(("/telemetry", "/log"))]
        access.write_text("\n".join(kept) + "\n")
        fleet.broker.start()
        fleet.children.start("aggregator", ["aggregator", "serve", "--config", "fleet.toml"])
        fleet.start("pi-01")
        assert eventually(lambda: denied(fleet) == {"telemetry"}, 120), fleet.said("pi-01")
        asked = fleet.edgestill("device", "log", "pi-01", "--wait", "1")
        assert asked.returncode == 7
        assert REMEDY in asked.stderr
        assert eventually(lambda: denied(fleet) == {"telemetry", "log"}, 120), fleet.said("pi-01")
