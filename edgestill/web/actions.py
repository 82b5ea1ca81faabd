"""What an operator may do on the page: the commands of the command line, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aggregator.config.fleet import FleetConfig
from aggregator.downlink.device_settings import SET, ask_for
from aggregator.operator_client import ask_service
from core.errors import ConfigError, did_you_mean
from edge_agent.remote_settings.allowed import check_setting

__all__ = ["ACTIONS", "Action", "act"]


@dataclass(frozen=True, slots=True)
class Action:
    """One command; `on` says what it needs."""

    run: Callable[[FleetConfig, str, str], str]
    on: str = ""  # device, model or nothing


def act(config: FleetConfig, name: str, on: str, value: str) -> str:
    """Execute an action; what to tell the operator. EdgestillError if it is refused."""
    action = ACTIONS.get(name)
    if action is None:
        raise ConfigError(f"unknown action {name!r}{did_you_mean(name, ACTIONS)}")
    if action.on == "device" and on not in config.devices:
        raise ConfigError(f"no device {on!r} in this fleet")
    return action.run(config, on, value)


def _service(verb: str) -> Callable[[FleetConfig, str, str], str]:
    return lambda config, on, value: ask_service(config, verb, on)


def _set(config: FleetConfig, device: str, text: str) -> str:
    """KEY=VALUE changes a setting, KEY alone returns to the value in agent.toml."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not key:
        raise ConfigError("no setting given; write KEY=VALUE, such as train.threads=2")
    if equals:
        check_setting(key, value)
    answer = ask_service(config, SET, ask_for(device, {key: value if equals else None}))
    return f"sent to {device} as settings {answer}; the device reports what it made of them"


ACTIONS: Mapping[str, Action] = {
    "pause": Action(_service("pause")),
    "resume": Action(_service("resume")),
    "stop": Action(_service("stop")),
    "skip": Action(_service("skip")),
    "revoke": Action(_service("revoke"), on="device"),
    "allow": Action(_service("allow"), on="device"),
    "set": Action(_set, on="device"),
    "rollback": Action(_service("rollback"), on="model"),
}
