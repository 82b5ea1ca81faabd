"""What an operator may do on the page: the commands of the command line, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from aggregator.config.fleet import FleetConfig
from aggregator.downlink.device_settings import SET, ask_for
from aggregator.downlink.log_requests import LOG, log_request
from aggregator.operator_client import ask_service
from aggregator.status import is_running
from core.errors import ConfigError, did_you_mean
from edge_agent.remote_settings.allowed import check_setting

__all__ = ["ACTIONS", "Action", "act", "authority_here"]


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


def _log(config: FleetConfig, device: str, _: str) -> str:
    if not is_running(config.state):
        raise ConfigError("the aggregator is not running, and only it can ask a device")
    ask_service(config, LOG, log_request(device))
    return f"{device} was asked for its log; it is shown here when it answers"


def _decide(*, refuse: bool) -> Callable[[FleetConfig, str, str], str]:
    """Certify a board whose fingerprint the operator has read at the board; needs the authority on this machine."""

    def decide_on(config: FleetConfig, device: str, fingerprint: str) -> str:
        from firmware_configs.manifest import certificate_days
        from firmware_configs.use_cases.approve_boards import decide

        folder = authority_here(config)
        if folder is None:
            raise ConfigError("the key of the fleet's authority is not on this machine; run: edgestill device approve")
        if not (refuse or fingerprint):
            raise ConfigError("no fingerprint given; read it in the board's log, or in `edgestill doctor` there")
        days = certificate_days(config.path)
        done = decide(config, folder, device, days=days, fingerprint=fingerprint or None, refuse=refuse)
        more = f"; {done.revoked} former certificates revoked, on the broker: edgestill broker install"
        return f"{device}: {done.answer}{more if done.revoked else ''}"

    return decide_on


def authority_here(config: FleetConfig) -> Path | None:
    """The folder of the kits, if the fleet's certificate authority lies on this machine."""
    from firmware_configs.manifest import kits_folder
    from firmware_configs.provision import authority_folder

    folder = kits_folder(config.path)
    try:
        return folder if folder is not None and authority_folder(folder).is_dir() else None
    except OSError:  # of another user
        return None


ACTIONS: Mapping[str, Action] = {
    "pause": Action(_service("pause")),
    "resume": Action(_service("resume")),
    "stop": Action(_service("stop")),
    "skip": Action(_service("skip")),
    "revoke": Action(_service("revoke"), on="device"),
    "allow": Action(_service("allow"), on="device"),
    "set": Action(_set, on="device"),
    "log": Action(_log, on="device"),
    "approve": Action(_decide(refuse=False)),
    "refuse": Action(_decide(refuse=True)),
    "rollback": Action(_service("rollback"), on="model"),
    "pin": Action(_service("pin"), on="model"),
    "unpin": Action(_service("unpin"), on="model"),
}
