"""The devices of a group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from core.config_keys import brief
from core.errors import ConfigError, EdgestillError, did_you_mean
from core.settings import read
from firmware_configs.boards import FAMILIES, Board, board
from firmware_configs.kits.bootfiles import WIFI_FAMILIES
from firmware_configs.kits.resolve import Target
from firmware_configs.kits.torch_source import TorchSource, torch_source
from firmware_configs.kits.upgrades.installer import STATUS_DIR
from firmware_configs.manifest.agent_tables import agent_tables, enrol_tables
from firmware_configs.manifest.plan import DevicePlan
from firmware_configs.manifest.tables import GroupConfig, ProvisionConfig
from firmware_configs.secrets import read_wifi
from wire.ids import check_device

__all__ = ["device_plans"]


def device_plans(
    table: Mapping[str, Any],
    path: Path,
    base: Path,
    common: Mapping[str, Any],
    known: set[str],
    own: ProvisionConfig,
    environ: Mapping[str, str],
) -> Iterator[DevicePlan]:
    """The devices of one table [[group]]; `common` has fleet, host and port, `known` the fleet's prototypes."""
    where = f"{path} [[group]] {brief(table.get('name', ''))}"
    group = read(GroupConfig, table, where, base=base)
    try:
        profile = board(group.board, own.boards_dir)
        enrol = group.enrol or own.enrol
        tables = agent_tables(group, profile, common, known, where)
        wifi = read_wifi(own.secrets, group.wifi, environ) if group.wifi else None
        families = _families(group, profile)
        targets = {family: _target(profile, family, group) for family in families}
        torch = _torch(profile, group, own, tables["train"]["mode"], base)
        tables |= enrol_tables(tables) if enrol != "off" else {}
        for name in _ids(group):
            check_device(name)
            agent = {"fleet": common["fleet"], "device": name, **tables["agent"]}
            agent |= {"upgrades": STATUS_DIR} if own.wheels != "none" else {}
            yield DevicePlan(
                id=name,
                group=group.name,
                board=profile,
                os=families,
                wifi=wifi,
                enrol=enrol,
                graph=group.graph,
                first_graph=group.graph is None and tables["train"]["mode"] == "light",
                targets=targets,
                torch=torch,
                tables={**tables, "agent": agent},
            )
    except EdgestillError as error:
        raise ConfigError(str(error) if str(error).startswith(where) else f"{where}: {error}") from None


def _families(group: GroupConfig, profile: Board) -> tuple[str, ...]:
    """The OS families of a group's boards, each known, and able to join the group's Wi-Fi."""
    families = group.os or profile.os
    for family in families:
        if family not in FAMILIES:
            raise ConfigError(f"'os': {family!r}{did_you_mean(family, FAMILIES)}; known: {' '.join(FAMILIES)}")
    if group.wifi and not set(families) <= set(WIFI_FAMILIES):
        raise ConfigError(f"'wifi' is set up on {' and '.join(WIFI_FAMILIES)} only, not on {' '.join(families)}")
    return families


def _target(profile: Board, family: str, group: GroupConfig) -> Target:
    version = group.python or profile.python.get(family)
    if version is None:
        raise ConfigError(
            f"board {profile.name} is not known with {family}: give 'python', the version that it has there"
        )
    return Target(profile.arch, version)


def _torch(profile: Board, group: GroupConfig, own: ProvisionConfig, mode: str, base: Path) -> TorchSource | None:
    if mode != "full" or own.wheels == "none":
        return None
    if profile.torch == "none":
        raise ConfigError(f"board {profile.name} has no torch ({profile.memory_mb} MB of memory); leave its mode light")
    return torch_source(profile, group.torch or own.torch, base)


def _ids(group: GroupConfig) -> tuple[str, ...]:
    if (group.count is None) == (not group.devices):
        raise ConfigError("give either 'count' or 'devices'")
    # at least two digits, and never more than needed: a larger count renames no device
    return group.devices or tuple(f"{group.name}-{number:02d}" for number in range(1, (group.count or 0) + 1))
