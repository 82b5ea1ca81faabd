"""A group of the manifest as the tables of its devices' agent.toml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from core.config_keys import sub_table
from core.errors import ConfigError, did_you_mean
from core.settings import given
from edge_agent.config import TABLES as AGENT_TABLES
from firmware_configs.boards import Board
from firmware_configs.kits.unit import MODEL_DIR
from firmware_configs.manifest.tables import STATE_DIR, GroupConfig
from models.spec import parse_prototype

__all__ = ["agent_tables", "enrol_tables", "full_name"]

#: Tables and keys of agent.toml that a group may set; the rest follows from the manifest and the identity.
_SETTINGS = {
    "agent": {"cache_mb": AGENT_TABLES["agent"]["cache_mb"]},
    "data": {name: key for name, key in AGENT_TABLES["data"].items() if name != "path"},
    "model": {name: AGENT_TABLES["model"][name] for name in ("refresh", "raw_input", "runtime")},
    "predict": AGENT_TABLES["predict"],
    "train": AGENT_TABLES["train"],
    "update": {"floats": AGENT_TABLES["update"]["floats"]},
    "log": AGENT_TABLES["log"],
}


def agent_tables(
    group: GroupConfig, profile: Board, common: Mapping[str, Any], known: set[str], where: str
) -> dict[str, dict[str, Any]]:
    """Everything but the name: settings of the board, then of the group; `known` are the fleet's prototypes."""
    prototype = full_name(group.prototype + (f":{group.precision}" if group.precision else ""))
    if prototype not in known:
        raise ConfigError(f"prototype {prototype} is not one of [prototypes] names: {' '.join(sorted(known))}")
    if not PurePosixPath(group.data).is_absolute():
        raise ConfigError(f"'data' is {group.data!r}; give the absolute path that the file has on the board")
    settings = _settings(group.settings, where)
    own = {"mode": profile.mode, "threads": profile.threads, "memory_mb": profile.train_mb, "device": profile.device}
    train = {**own, **settings["train"]}
    if train["memory_mb"] >= profile.service_mb:
        unit = f"its unit may use {profile.service_mb} MB of the {profile.memory_mb} MB of a {profile.name}"
        raise ConfigError(f"settings.train: 'memory_mb' is {train['memory_mb']}, but agent and training share {unit}")
    graph = group.graph is not None or train["mode"] == "light"
    if group.graph is not None and not group.graph.is_file():
        raise ConfigError(f"'graph': there is no file {group.graph}")
    update = {"kind": group.update, "delta_bits": group.delta_bits, **settings["update"]}
    return {
        "agent": {"state_dir": STATE_DIR, "board": profile.title, **settings["agent"]},
        "broker": {
            "host": common["host"],
            "port": common["port"],
            "tls": {"ca": "tls/ca.pem", "cert": "tls/device.pem", "key": "tls/device.key"},
        },
        "keys": {"private": "device.key", "aggregator": "aggregator.pub"},
        "model": {
            "prototype": prototype,
            **({"graph": "model.onnx"} if graph else {}),
            "publish": MODEL_DIR,
            **settings["model"],
        },
        "predict": settings["predict"],
        "data": {"path": group.data, **settings["data"]},
        "train": train,
        "update": {name: value for name, value in update.items() if value is not None},
        "log": settings["log"],
    }


def enrol_tables(tables: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Changes for a board that generates its own keys."""
    return {
        "broker": {**tables["broker"], "tls": {"ca": "tls/ca.pem"}},
        "keys": {"aggregator": "aggregator.pub"},
        "enrol": {"cert": "tls/claim.pem", "key": "tls/claim.key"},
    }


def _settings(tables: Mapping[str, Any], where: str) -> dict[str, dict[str, Any]]:
    for name in tables:
        if name not in _SETTINGS:
            hint = did_you_mean(name, _SETTINGS) or f"; known: {' '.join(_SETTINGS)}"
            raise ConfigError(f"settings: unknown table {name!r}{hint}")
    return {
        name: given(fields, sub_table(tables, name, f"{where} settings"), f"{where} settings.{name}")
        for name, fields in _SETTINGS.items()
    }


def full_name(prototype: str) -> str:
    """Architecture and precision, also where the precision was left out."""
    arch, precision = parse_prototype(prototype)
    return f"{arch}:{precision}"
