"""The fleet manifest: the tables [provision] and [[group]] of fleet.toml, resolved to every device's settings.

    [provision]
    out = "kits"                     # folder for kits and identities, relative to this file
    host = "broker.example"          # address of the broker for devices; default [broker] host
    secrets = "secrets.toml"         # Wi-Fi passwords
    wheels = "card"                  # or fleet, network, none: kits/wheel_set.py
    wheels_url = "http://10.0.0.2:8090"    # of `edgestill kit serve`: boards fetch there what their card does not have
    packages = ["./my_models"]       # the user's own: firmware_configs/kits/own_packages.py

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from aggregator.config.tables import FleetTable, PrototypesTable, StateTable, TaskConfig, split_tables
from core.config_keys import brief, read_toml, sub_table
from core.errors import ConfigError, EdgestillError, did_you_mean
from core.limits import MEGABYTES
from core.settings import Settings, given, read, replace, within
from edge_agent.config import TABLES as AGENT_TABLES
from edge_agent.config import Kind
from firmware_configs.boards import FAMILIES, Board, board
from firmware_configs.kits.bootfiles import WIFI_FAMILIES
from firmware_configs.kits.kit import KitFetch
from firmware_configs.kits.resolve import Target
from firmware_configs.kits.torch_source import TorchSource, torch_source
from firmware_configs.kits.unit import MODEL_DIR
from firmware_configs.kits.upgrades.installer import STATUS_DIR
from firmware_configs.secrets import Wifi, read_wifi
from models.spec import parse_prototype
from transport.config import TLS_PORT, BrokerConfig, broker_config
from wire.ids import check_device, check_id

__all__ = [
    "ENROL",
    "DevicePlan",
    "FirstModels",
    "Manifest",
    "certificate_days",
    "kits_folder",
    "load_manifest",
    "read_boards_dir",
]

STATE_DIR = "/var/lib/edgestill"
#: Keys in the kit; keys generated on the board, certified after approval, or for the claim alone.
Enrol = Literal["off", "approve", "claim"]
ENROL = get_args(Enrol)
#: All wheels go with the cards; boards fetch them from the fleet's machine, or from pip's index; they have edgestill.
Wheels = Literal["card", "fleet", "network", "none"]
Python = Literal["3.10", "3.11", "3.12", "3.13"]


class ProvisionConfig(Settings, frozen=True, kw_only=True):
    """The table [provision]."""

    out: Path | None = None
    host: str | None = None
    port: Annotated[int, within(1, 65535)] | None = None
    server_names: Annotated[tuple[str, ...], Meta(description="further names in the broker's certificate")] = ()
    days: Annotated[int, within(1, 3650, "validity of device certificates")] = 825
    authority_days: Annotated[int, within(1, 36500)] = 3650
    secrets: Annotated[Path, Meta(description="Wi-Fi passwords: firmware_configs/secrets.py")] | None = None
    wheels: Annotated[Wheels, Meta(description="where boards get what they install")] = "card"
    wheels_url: Annotated[str, Meta(description="of `edgestill kit serve`, as boards see it")] | None = None
    packages: Annotated[tuple[str, ...], Meta(description="folders, wheels and requirements of the user's own")] = ()
    torch: Annotated[str, Meta(description="an index, a folder, or system: kits/torch_source.py")] | None = None
    boards_dir: Annotated[Path, Meta(description="board profiles of the user's own")] | None = None
    enrol: Enrol = "off"
    claim_days: Annotated[int, within(1, 90)] = 7
    broker_mb: Annotated[int, within(64, MEGABYTES.most, "memory of the broker, in addition to retained messages")] = (
        1024
    )


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
    python: Annotated[Python, Meta(description="of the board's system, if not that of its profile")] | None = None
    torch: str | None = None
    wifi: str | None = None
    enrol: Enrol | None = None
    settings: Mapping[str, Any] = {}


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
    first_graph: bool  # model.onnx is the fleet's first model: provisioning makes it
    targets: Mapping[str, Target]  # what wheels are for, by OS family
    torch: TorchSource | None  # None: that of the lock
    tables: Mapping[str, Mapping[str, Any]]  # of its agent.toml: values that differ from the defaults

    @property
    def mode(self) -> str:
        """How it trains: full or light."""
        return str(self.tables["train"]["mode"])

    def facts(self) -> dict[str, Any]:
        """A summary for display; the Wi-Fi only by its name."""
        flat = {f"{name}.{key}": value for name, table in self.tables.items() for key, value in table.items()}
        told: dict[str, Any] = {"group": self.group, "board": self.board.name, "os": " ".join(self.os)}
        told["python"] = " ".join(dict.fromkeys(target.python for target in self.targets.values()))
        if self.wifi is not None:
            told["wifi"] = self.wifi.ssid
        if self.enrol != "off":
            told["enrol"] = self.enrol
        return {**told, **{key: value for key, value in flat.items() if not isinstance(value, dict)}}


class FirstModels(msgspec.Struct, frozen=True, kw_only=True):
    """Inputs of the fleet's first models, in addition to their prototypes."""

    input_shape: tuple[int, ...]
    classes: int
    latent: int
    seed: int


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
    wheels: str  # card, fleet, network or none
    fetch: KitFetch | None  # where boards fetch wheels that their card does not have
    packages: tuple[str, ...]
    boards_dir: Path | None  # the user's own board profiles
    aggregator_key: Path
    first_models: FirstModels
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
        own = {"out": str(self.out), "broker": f"{self.host}:{self.port}", "days": self.days, "wheels": self.wheels}
        own |= {"wheels_url": self.fetch.url} if self.fetch else {}
        return {"provision": own, **{f"device {device.id}": device.facts() for device in self.devices}}


def load_manifest(
    path: Path | str, *, out: Path | None = None, wheels: str | None = None, environ: Mapping[str, str] | None = None
) -> Manifest:
    """Read and check the manifest in a fleet.toml; `out` and `wheels` override the file's."""
    path, environ = Path(path), os.environ if environ is None else environ
    file, base = read_toml(path), path.resolve().parent
    tables = split_tables(file, str(path))
    own = _provision(file, path, wheels)
    fleet = read(FleetTable, tables["fleet"], f"{path} [fleet]", base=base)
    state = read(StateTable, tables["state"], f"{path} [state]", base=base)
    task = read(TaskConfig, tables["task"], f"{path} [task]", base=base)
    prototypes = read(PrototypesTable, tables["prototypes"], f"{path} [prototypes]", base=base)
    broker = _broker(tables["broker"], path, base, environ)
    host, port = own.host or broker.host, own.port or broker.port
    with _located(path):
        check_id(fleet.id, "fleet")
        known = {_full_name(name) for name in prototypes.names}
        common = {"fleet": fleet.id, "host": host, "port": port}
        groups = _groups(file, path)
        plans = [plan for group in groups for plan in _devices(group, path, base, common, known, own, environ)]
    _refuse_twice(plans, path)
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
        wheels=own.wheels,
        fetch=_fetch(own, path),
        boards_dir=own.boards_dir,
        packages=own.packages,
        aggregator_key=state.key,
        first_models=FirstModels(
            input_shape=task.input_shape, classes=task.classes, latent=task.latent, seed=fleet.seed
        ),
        devices=tuple(plans),
    )


@contextmanager
def _located(path: Path) -> Iterator[None]:
    """Errors name the file, once."""
    try:
        yield
    except EdgestillError as error:
        named = isinstance(error, ConfigError) and str(path) in str(error)
        raise ConfigError(str(error) if named else f"{path}: {error}") from None


def _broker(table: Mapping[str, Any], path: Path, base: Path, environ: Mapping[str, str]) -> BrokerConfig:
    """[broker] without its TLS files, which provisioning creates, but with the port of TLS as its default."""
    kept = {key: value for key, value in table.items() if key not in ("tls", "password_file")}
    config = broker_config(kept, f"{path} [broker]", base, environ=environ)
    return config if "port" in table else replace(config, port=TLS_PORT)


def kits_folder(path: Path | str) -> Path | None:
    """The output folder of a fleet.toml; None if it is not a manifest. Needs no secrets."""
    file = read_toml(path)
    if "group" not in file and "provision" not in file:
        return None
    return _provision(file, Path(path)).out or Path(path).resolve().parent / "kits"


def certificate_days(path: Path | str) -> int:
    """The validity of device certificates in a fleet.toml, in days. Needs no secrets."""
    return _provision(read_toml(path), Path(path)).days


def _provision(file: Mapping[str, Any], path: Path, wheels: str | None = None) -> ProvisionConfig:
    table, base = sub_table(file, "provision", str(path)), path.resolve().parent
    return read(ProvisionConfig, table, f"{path} [provision]", base=base, flags={"wheels": wheels})


def read_boards_dir(path: Path) -> Path | None:
    """The folder with the user's board profiles that the fleet.toml at `path` names, if it names one."""
    return _provision(read_toml(path), path).boards_dir


def _fetch(own: ProvisionConfig, path: Path) -> KitFetch | None:
    where = f"{path} [provision]"
    if own.wheels_url is None:
        if own.wheels == "fleet":
            raise ConfigError(f"{where}: wheels = 'fleet' needs 'wheels_url', the address of `edgestill kit serve`")
        return None
    if own.wheels not in ("card", "fleet"):
        raise ConfigError(f"{where}: 'wheels_url' is not used with wheels = {own.wheels!r}; remove one of them")
    try:
        return KitFetch(own.wheels_url, always=own.wheels == "fleet")
    except ConfigError as error:
        raise ConfigError(f"{where}: 'wheels_url': {error}") from None


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
    own: ProvisionConfig,
    environ: Mapping[str, str],
) -> Iterator[DevicePlan]:
    where = f"{path} [[group]] {brief(table.get('name', ''))}"
    group = read(GroupConfig, table, where, base=base)
    try:
        profile = board(group.board, own.boards_dir)
        enrol = group.enrol or own.enrol
        tables = _agent_tables(group, profile, common, known, where)
        wifi = read_wifi(own.secrets, group.wifi, environ) if group.wifi else None
        families = _families(group, profile)
        targets = {family: _target(profile, family, group) for family in families}
        torch = _torch(profile, group, own, tables["train"]["mode"], base)
        tables |= _enrol_tables(tables) if enrol != "off" else {}
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


def _agent_tables(
    group: GroupConfig, profile: Board, common: Mapping[str, Any], known: set[str], where: str
) -> dict[str, dict[str, Any]]:
    prototype = _full_name(group.prototype + (f":{group.precision}" if group.precision else ""))
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


def _refuse_twice(devices: Sequence[DevicePlan], path: Path) -> None:
    seen: dict[str, str] = {}
    for device in devices:
        if device.id in seen:
            groups = f"{seen[device.id]!r} and {device.group!r}"
            raise ConfigError(f"{path}: device {device.id!r} is in [[group]] {groups}; each device has one")
        seen[device.id] = device.group
