"""Which keys of agent.toml the aggregator may change on a running device, and a config with them changed.

`log.*` takes effect immediately, `train.*` and `update.*` from the next training on. Everything else can only be set on
the board: identity, trusted keys, broker, path of the samples and label privacy. So can the kind of updates, if
agent.toml fixes it to `predictor`: the rest of the model must then not leave the board.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.errors import ConfigError, did_you_mean
from core.settings import replace, value_of
from edge_agent.config import TABLES, AgentConfig

__all__ = ["SETTABLE", "check_setting", "sort_out", "with_settings"]

SETTABLE = (
    "log.format",
    "log.level",
    "train.threads",
    "train.memory_mb",
    "train.max_seconds",
    "train.nice",
    "train.device",
    "train.amp",
    "update.kind",
    "update.delta_bits",
    "update.floats",
)
_FIXED = {
    "agent": "who a device is, and where it keeps its state",
    "broker": "which broker it calls",
    "enrol": "how it enrols",
    "keys": "whom it trusts",
    "model": "what it trains",
    "data": "where its samples lie, and how much of them it tells",
    "train": "how it trains",
    "predict": "whether it answers requests over MQTT",
}


def check_setting(name: str, text: str) -> Any:
    """The value of a setting; `ConfigError` says why it cannot be set remotely."""
    section, _, key = name.partition(".")
    if name not in SETTABLE:
        if key in TABLES.get(section, {}) or section == "broker":
            raise ConfigError(f"{name}: {_FIXED[section]} is for agent.toml to say, on the board")
        hint = did_you_mean(name, SETTABLE) or f"; known: {' '.join(SETTABLE)}"
        raise ConfigError(f"{name}: no such setting{hint}")
    value = value_of(TABLES[section][key], text, name)
    if name == "update.delta_bits" and value not in (1, 2, 4, 8):
        raise ConfigError(f"{name} is {value}; give 1, 2, 4 or 8")
    return value


def with_settings(config: AgentConfig, settings: Mapping[str, str]) -> AgentConfig:
    """The config with these settings; `ConfigError` for one that is invalid, or conflicts with the rest."""
    changes: dict[str, dict[str, Any]] = {}
    for name, text in settings.items():
        section, _, key = name.partition(".")
        changes.setdefault(section, {})[key] = check_setting(name, text)
    kept = config.update.kind
    if kept == "predictor" and changes.get("update", {}).get("kind", kept) != kept:
        raise ConfigError("update.kind: agent.toml says predictor, so that the rest of the model stays on the board")
    return replace(config, **{name: replace(getattr(config, name), **values) for name, values in changes.items()})


def sort_out(config: AgentConfig, settings: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The settings that can be applied together, and the others with the reason."""
    good, refused = {}, {}
    for name, text in settings.items():
        try:
            check_setting(name, text)
            good[name] = text
        except ConfigError as error:
            refused[name] = str(error)[:200]
    for part in ("update.", "train.device"):
        some = {name: text for name, text in good.items() if name.startswith(part)}
        try:
            with_settings(config, some)
        except ConfigError as error:  # each is valid, but conflicts with others or with agent.toml
            refused |= dict.fromkeys(some, str(error)[:200])
    return {name: text for name, text in good.items() if name not in refused}, refused
