"""Actions leave the commands that the command line leaves."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.config.fleet import FleetConfig
from aggregator.storage.journal import Journal
from core.errors import ConfigError, EdgestillError
from edgestill.web import actions
from edgestill.web.actions import ACTIONS, act
from firmware_configs.use_cases import approve_boards
from firmware_configs.use_cases.approve_boards import Decision


def commands(config: FleetConfig) -> list[tuple[str, str]]:
    with closing(Journal(config.state / "journal.db")) as journal:
        return [(command.verb, command.argument) for command in journal.commands()]


@pytest.mark.parametrize("name", sorted(set(ACTIONS) - {"set", "log", "approve", "refuse"}))
def test_an_action_is_a_command_for_the_service(config: FleetConfig, name: str) -> None:
    on = {"device": "pi-1", "model": "m1", "": ""}[ACTIONS[name].on]
    assert act(config, name, on, "") == f"the aggregator is not running: it will {name} when it starts"
    assert commands(config) == [(name, on)]


def test_a_setting_is_changed_or_unset(config: FleetConfig) -> None:
    act(config, "set", "pi-1", "train.threads = 2")
    act(config, "set", "pi-1", "train.threads")
    changes = [json.loads(argument) for verb, argument in commands(config) if verb == "set"]
    assert changes == [
        {"device": "pi-1", "changes": {"train.threads": "2"}},
        {"device": "pi-1", "changes": {"train.threads": None}},
    ]


@pytest.mark.parametrize(
    ("name", "on", "value", "told"),
    [
        ("reboot", "", "", "unknown action 'reboot'"),
        ("revoke", "pi-9", "", "no device 'pi-9' in this fleet"),
        ("set", "pi-1", "", "no setting given; write KEY=VALUE"),
        ("set", "pi-1", "train.threads=x", "threads"),
        ("set", "pi-1", "keys.private=/etc/x", "keys.private"),
        ("log", "pi-1", "", "the aggregator is not running, and only it can ask"),
        ("log", "pi-9", "", "no device 'pi-9'"),
        ("approve", "pi-1", "1f0c", "authority is not on this machine"),
        ("refuse", "pi-1", "", "authority is not on this machine"),
    ],
)
def test_what_cannot_be_done_leaves_nothing(config: FleetConfig, name: str, on: str, value: str, told: str) -> None:
    with pytest.raises(EdgestillError, match=told) as refused:
        act(config, name, on, value)
    assert isinstance(refused.value, ConfigError)
    assert commands(config) == []


def test_a_running_service_is_asked_for_a_log(config: FleetConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "is_running", lambda _: True)
    assert act(config, "log", "pi-1", "") == "pi-1 was asked for its log; it is shown here when it answers"
    assert commands(config) == [("log", '{"device": "pi-1", "lines": 200}')]


def test_a_board_is_approved_only_with_the_fingerprint_that_the_operator_has_read(
    config: FleetConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[dict[str, object]] = []

    def decide(fleet: FleetConfig, kits: Path, device: str, **how: object) -> Decision:
        asked.append({"device": device, "kits": kits, **how})
        return Decision(device, "1f0c", "approved", 2)

    monkeypatch.setattr(actions, "authority_here", lambda _: tmp_path)
    monkeypatch.setattr(approve_boards, "decide", decide)
    with pytest.raises(ConfigError, match="no fingerprint given"):
        act(config, "approve", "pi-1", "")
    assert asked == []
    assert act(config, "approve", "pi-1", "1f0c 77a2").startswith("pi-1: approved; 2 former certificates revoked")
    act(config, "refuse", "pi-1", "")
    days = asked[0]["days"]
    assert asked == [
        {"device": "pi-1", "kits": tmp_path, "days": days, "fingerprint": "1f0c 77a2", "refuse": False},
        {"device": "pi-1", "kits": tmp_path, "days": days, "fingerprint": None, "refuse": True},
    ]
