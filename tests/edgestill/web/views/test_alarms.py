"""What is wrong is said in a sentence each; tests/docs/test_operate_page.py: and what to do about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aggregator.config.fleet import FleetConfig
from core.settings import replace
from edgestill.web.views.alarms import alarms
from tests.certificates import Authority
from transport.config import TlsConfig

NOW = 1_760_000_000.0
FACTS: dict[str, Any] = {
    "running": True,
    "connected": True,
    "stuck": "",
    "round": {"number": 4, "phase": "open", "reason": ""},
    "disk": {"free": 10**9, "size": 2 * 10**9},
}


def row(name: str = "pi-1", **changes: Any) -> dict[str, Any]:
    base = {"id": name, "state": "online", "limited": 0, "strained": None, "problem": "", "installing": ""}
    return {**base, "upgrade": "", "upgrade_to": "0.3.0", "upgrade_reason": "", **changes}


@pytest.mark.parametrize(
    ("facts", "device", "told"),
    [
        (
            {"running": False, "connected": False},
            {},
            "The aggregator is not running; this is the state in its journal.",
        ),
        ({"connected": False}, {}, "The aggregator has no connection to its broker."),
        ({"stuck": "a bug"}, {}, "Round 4 cannot be fused: a bug"),
        (
            {"round": {"number": 4, "phase": "abandoned", "reason": "skipped"}},
            {},
            "Round 4 was abandoned: skipped",
        ),
        ({"disk": {"free": 10**8, "size": 2 * 10**9}}, {}, "The disk of the state folder is almost full: 100 MB free."),
        ({}, {"state": "lost"}, "1 devices are lost: pi-1"),
        ({}, {"state": "muted"}, "1 devices are muted, they send only garbage: pi-1"),
        ({}, {"limited": 7}, "1 devices send more than their budgets: pi-1"),
        ({}, {"strained": "throttled"}, "1 boards are slowed down or run on battery: pi-1"),
        ({}, {"problem": "out of memory"}, "pi-1 gave up a round: out of memory"),
        ({}, {"installing": "the disk is full"}, "pi-1 could not install its agent: the disk is full"),
        (
            {},
            {"upgrade": "back", "upgrade_reason": "it did not start"},
            "pi-1 did not take the update to 0.3.0: it did not start",
        ),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    config: FleetConfig, facts: dict[str, Any], device: dict[str, Any], told: str
) -> None:
    assert alarms(config, FACTS, [row()], NOW) == []
    assert alarms(config, {**FACTS, **facts}, [row(**device)], NOW) == [told]


def test_a_certificate_that_ends_soon(config: FleetConfig, tmp_path: Path) -> None:
    tls = TlsConfig(ca=Authority(tmp_path / "authority").ca)
    config = replace(config, broker=replace(config.broker, tls=tls))
    (told,) = alarms(config, FACTS, [], NOW + 1e9)
    assert told == "The certificate ca ends in 0 s."


def test_boards_that_wait_for_approval(config: FleetConfig) -> None:
    assert alarms(config, FACTS, [], NOW, ["new-1"]) == ["1 boards ask for a certificate: new-1"]


def test_many_devices_are_counted_and_the_first_are_named(config: FleetConfig) -> None:
    lost = [row(f"pi-{number}", state="lost", problem="x") for number in range(7)]
    told = alarms(config, FACTS, lost, NOW)
    assert told[0] == "7 devices are lost: pi-0, pi-1, pi-2, pi-3, pi-4, 2 more"
    assert len(told) == 6
