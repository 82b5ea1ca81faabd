"""The fleet manifest: the tables [provision] and [[group]] of fleet.toml, resolved to every device's settings.

    [provision]
    out = "kits"                     # folder for kits and identities, relative to this file
    host = "broker.example"          # address of the broker for devices; default [broker] host
    secrets = "secrets.toml"         # Wi-Fi passwords

    [[group]]
    name = "pi"
    board = "rpi-4"                  # edgestill board list
    count = 3                        # pi-01, pi-02, pi-03; or devices = ["kitchen", "attic"]
    prototype = "cnn:w1"             # one of [prototypes] names; or prototype = "cnn" and precision = "w1"
    data = "/var/lib/edgestill/samples.npz"
    wifi = "home"                    # of the secrets file
    [group.settings.train]           # any other key of agent.toml
    threads = 2

The aggregator reads its own tables of the same file. A device's settings are its board's, then its group's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta

from aggregator.config.tables import FleetTable, PrototypesTable, StateTable, split_tables
from core.config_keys import brief, read_toml, sub_table
from core.errors import ConfigError, EdgestillError, did_you_mean
from core.limits import MEGABYTES
from core.settings import Settings, given, read, within
from edge_agent.config import TABLES as AGENT_TABLES
from edge_agent.config import Kind
from firmware_configs.boards import FAMILIES, Board, board
from firmware_configs.kits.bootfiles import WIFI_FAMILIES
from firmware_configs.secrets import Wifi, read_wifi
from models.spec import parse_prototype
from transport.config import TLS_PORT, BrokerConfig, broker_config
from wire.ids import check_device, check_id

__all__ = ["ENROL", "DevicePlan", "Manifest", "certificate_days", "kits_folder", "load_manifest"]

STATE_DIR = "/var/lib/edgestill"
#: Keys in the kit; keys made on the board, certified when somebody approves them, or for the claim alone.
Enrol = Literal["off", "approve", "claim"]
ENROL = get_args(Enrol)


class ProvisionConfig(Settings, frozen=True, kw_only=True):
    """The table [provision]."""

    out: Path | None = None
    host: str | None = None
    port: Annotated[int, within(1, 65535)] | None = None
    server_names: Annotated[tuple[str, ...], Meta(description="further names of the broker's certificate")] = ()
    days: Annotated[int, within(1, 3650, "that certificates of devices are good")] = 825
    authority_days: Annotated[int, within(1, 36500)] = 3650
    secrets: Annotated[Path, Meta(description="Wi-Fi passwords: firmware_configs/secrets.py")] | None = None
    package: Annotated[str, Meta(description="what pip is asked for on a board without wheels")] = "edgestill"
    enrol: Enrol = "off"
    claim_days: Annotated[int, within(1, 90)] = 7
    broker_mb: Annotated[int, within(64, MEGABYTES.most, "memory of the broker, beside retained messages")] = 1024


class GroupConfig(Settings, frozen=True, kw_only=True):
    """A table [[group]]."""

    name: str
    board: str
    count: Annotated[int, within(1, 10_000)] | None = None
    devices: tuple[str, ...] = ()
    prototype: str
    precision: str | None = None
    update: Kind = "job"
    delta_bits: int | None = None
    data: str = f"{STATE_DIR}/samples.npz"
    graph: Path | None = None
    os: tuple[str, ...] = ()
    wifi: str | None = None
    enrol: Enrol | None = None
    settings: Mapping[str, Any] = {}


#: What a group may set of agent.toml; the rest follows from the manifest and the identity.
_SETTINGS = {
    "agent": {"cache_mb": AGENT_TABLES["agent"]["cache_mb"]},
    "data": {name: key for name, key in AGENT_TABLES["data"].items() if name != "path"},
    "train": AGENT_TABLES["train"],
    "update": {"floats": AGENT_TABLES["update"]["floats"]},
    "log": AGENT_TABLES["log"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePlan:
    """One device of the manifest."""

    id: str
    group: str
    board: Board
    os: tuple[str, ...]
    wifi: Wifi | None
    enrol: str  # one of ENROL
    graph: Path | None  # put into the kit as model.onnx
    tables: Mapping[str, Mapping[str, Any]]  # of its agent.toml: values that differ from the defaults

    def facts(self) -> dict[str, Any]:
        """A summary for display; the Wi-Fi only by its name."""
        flat = {f"{name}.{key}": value for name, table in self.tables.items() for key, value in table.items()}
        told: dict[str, Any] = {"group": self.group, "board": self.board.name, "os": " ".join(self.os)}
        if self.wifi is not None:
            told["wifi"] = self.wifi.ssid
        if self.enrol != "off":
            told["enrol"] = self.enrol
        return {**told, **{key: value for key, value in flat.items() if not isinstance(value, dict)}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A fleet to be provisioned."""

    path: Path
    fleet: str
    out: Path
    host: str
    port: int
    server_names: tuple[str, ...]
    days: int
    authority_days: int
    claim_days: int
    broker_mb: int  # memory of the broker, in addition to retained messages of devices
    package: str  # pip requirement on a board without wheels: a name, or a URL
    aggregator_key: Path
    devices: tuple[DevicePlan, ...]

    def device(self, name: str) -> DevicePlan:
        """The device called `name`."""
        for device in self.devices:
            if device.id == name:
                return device
        hint = did_you_mean(name, (d.id for d in self.devices))
        raise ConfigError(f"{self.path}: no device {name!r}{hint}")

    def facts(self) -> dict[str, dict[str, Any]]:
        """The resolved manifest, device by device, without secrets."""
        own = {"out": str(self.out), "broker": f"{self.host}:{self.port}", "days": self.days}
        return {"provision": own, **{f"device {device.id}": device.facts() for device in self.devices}}


def load_manifest(path: Path | str, *, out: Path | None = None, environ: Mapping[str, str] | None = None) -> Manifest:
    """Read and check the manifest in a fleet.toml; `out` overrides the file's."""
    path, environ = Path(path), os.environ if environ is None else environ
    file, base = read_toml(path), path.resolve().parent
    tables = split_tables(file, str(path))
    own = _provision(file, path)
    fleet = read(FleetTable, tables["fleet"], f"{path} [fleet]", base=base)
    state = read(StateTable, tables["state"], f"{path} [state]", base=base)
    prototypes = read(PrototypesTable, tables["prototypes"], f"{path} [prototypes]", base=base)
    broker = _broker(tables["broker"], path, base, environ)
    host = own.host or broker.host
    port = own.port or (broker.port if "port" in tables["broker"] else TLS_PORT)
    try:
        check_id(fleet.id, "fleet")
        known = {_full_name(name) for name in prototypes.names}
        common = {"fleet": fleet.id, "host": host, "port": port, "enrol": own.enrol}
        groups = _groups(file, path)
        devices = tuple(
            device for table in groups for device in _devices(table, path, base, common, known, own.secrets, environ)
        )
    except ConfigError as error:
        raise ConfigError(str(error) if str(path) in str(error) else f"{path}: {error}") from None
    except EdgestillError as error:
        raise ConfigError(f"{path}: {error}") from None
    _refuse_twice(devices, path)
    return Manifest(
        path=path,
        fleet=fleet.id,
        out=out or own.out or base / "kits",
        host=host,
        port=port,
        server_names=tuple(dict.fromkeys((host, broker.host, *own.server_names, "localhost", "127.0.0.1"))),
        days=own.days,
        authority_days=own.authority_days,
        claim_days=own.claim_days,
        broker_mb=own.broker_mb,
        package=own.package,
        aggregator_key=state.key,
        devices=devices,
    )


def _broker(table: Mapping[str, Any], path: Path, base: Path, environ: Mapping[str, str]) -> BrokerConfig:
    """[broker] without its TLS files: provisioning creates them."""
    kept = {key: value for key, value in table.items() if key not in ("tls", "password_file")}
    return broker_config(kept, f"{path} [broker]", base, environ=environ)


def kits_folder(path: Path | str) -> Path | None:
    """The output folder of a fleet.toml; None if it is not a manifest. Needs no secrets."""
    file = read_toml(path)
    if "group" not in file and "provision" not in file:
        return None
    return _provision(file, Path(path)).out or Path(path).resolve().parent / "kits"


def certificate_days(path: Path | str) -> int:
    """How long certificates of a fleet.toml's devices are good. Needs no secrets."""
    return _provision(read_toml(path), Path(path)).days


def _provision(file: Mapping[str, Any], path: Path) -> ProvisionConfig:
    table = sub_table(file, "provision", str(path))
    return read(ProvisionConfig, table, f"{path} [provision]", base=path.resolve().parent)


def _groups(file: Mapping[str, Any], path: Path) -> list[dict[str, Any]]:
    groups = file.get("group", [])
    if not isinstance(groups, list) or not groups:
        raise ConfigError(f"{path}: has no [[group]] of devices; see docs/flashing.md")
    if not all(isinstance(group, dict) for group in groups):
        raise ConfigError(f"{path}: 'group' holds {brief(groups)}, expected tables [[group]]")
    return groups


def _devices(
    table: Mapping[str, Any],
    path: Path,
    base: Path,
    common: Mapping[str, Any],
    known: set[str],
    secrets: Path | None,
    environ: Mapping[str, str],
) -> Iterator[DevicePlan]:
    where = f"{path} [[group]] {brief(table.get('name', ''))}"
    group = read(GroupConfig, table, where, base=base)
    try:
        profile = board(group.board)
        enrol = group.enrol or common["enrol"]
        tables = _agent_tables(group, profile, common, known, where)
        wifi = read_wifi(secrets, group.wifi, environ) if group.wifi else None
        families = group.os or profile.os
        for family in families:
            if family not in FAMILIES:
                raise ConfigError(f"'os': {family!r}{did_you_mean(family, FAMILIES)}; known: {' '.join(FAMILIES)}")
        if wifi is not None and not set(families) <= set(WIFI_FAMILIES):
            raise ConfigError(f"'wifi' is set up on {' and '.join(WIFI_FAMILIES)} only, not on {' '.join(families)}")
        tables |= _enrol_tables(tables) if enrol != "off" else {}
        for name in _ids(group):
            check_device(name)
            agent = {"fleet": common["fleet"], "device": name, **tables["agent"]}
            yield DevicePlan(
                id=name,
                group=group.name,
                board=profile,
                os=families,
                wifi=wifi,
                enrol=enrol,
                graph=group.graph,
                tables={**tables, "agent": agent},
            )
    except EdgestillError as error:
        raise ConfigError(str(error) if str(error).startswith(where) else f"{where}: {error}") from None


def _ids(group: GroupConfig) -> tuple[str, ...]:
    if (group.count is None) == (not group.devices):
        raise ConfigError("give either 'count' or 'devices'")
    # two digits at least and never more than needed: a larger count renames nobody
    return group.devices or tuple(f"{group.name}-{number:02d}" for number in range(1, (group.count or 0) + 1))


def _agent_tables(
    group: GroupConfig, profile: Board, common: Mapping[str, Any], known: set[str], where: str
) -> dict[str, dict[str, Any]]:
    prototype = _full_name(group.prototype + (f":{group.precision}" if group.precision else ""))
    if prototype not in known:
        raise ConfigError(f"prototype {prototype} is not one of [prototypes] names: {' '.join(sorted(known))}")
    if not PurePosixPath(group.data).is_absolute():
        raise ConfigError(f"'data' is {group.data!r}; give the absolute path that the file has on the board")
    settings = _settings(group.settings, where)
    train = {"mode": profile.mode, "threads": profile.threads, "memory_mb": profile.train_mb, **settings["train"]}
    if train["mode"] == "light" and group.graph is None:
        raise ConfigError(
            f"board {profile.name} trains in mode light, which needs 'graph', an ONNX file of {prototype}"
            " (`edgestill model export`); or set [group.settings.train] mode to full"
        )
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
        "model": {"prototype": prototype, **({"graph": "model.onnx"} if group.graph is not None else {})},
        "data": {"path": group.data, **settings["data"]},
        "train": train,
        "update": {name: value for name, value in update.items() if value is not None},
        "log": settings["log"],
    }


def _enrol_tables(tables: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
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


def _full_name(prototype: str) -> str:
    arch, precision = parse_prototype(prototype)
    return f"{arch}:{precision}"


def _refuse_twice(devices: tuple[DevicePlan, ...], path: Path) -> None:
    seen: dict[str, str] = {}
    for device in devices:
        if device.id in seen:
            groups = f"{seen[device.id]!r} and {device.group!r}"
            raise ConfigError(f"{path}: device {device.id!r} is in [[group]] {groups}; each device has one")
        seen[device.id] = device.group
