"""Actions leave the commands that the command line leaves."""

import json
from contextlib import closing

import pytest

from aggregator.config.fleet import FleetConfig
from aggregator.storage.journal import Journal
from core.errors import ConfigError, EdgestillError
from edgestill.web.actions import ACTIONS, act


def commands(config: FleetConfig) -> list[tuple[str, str]]:
    with closing(Journal(config.state / "journal.db")) as journal:
        return [(command.verb, command.argument) for command in journal.commands()]


@pytest.mark.parametrize("name", sorted(set(ACTIONS) - {"set"}))
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
    ],
)
def test_what_cannot_be_done_leaves_nothing(config: FleetConfig, name: str, on: str, value: str, told: str) -> None:
    with pytest.raises(EdgestillError, match=told) as refused:
        act(config, name, on, value)
    assert isinstance(refused.value, ConfigError)
    assert commands(config) == []
