"""A fleet.toml in, the manifest out, checked.

The aggregator reads its own tables of the same file. A device's settings are its board's, then its group's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aggregator.config.tables import FleetTable, PrototypesTable, StateTable, TaskConfig, split_tables
from core.config_keys import brief, read_toml
from core.errors import ConfigError, EdgestillError
from core.settings import read, replace
from firmware_configs.kits.kit import KitFetch
from firmware_configs.manifest.agent_tables import full_name
from firmware_configs.manifest.devices import device_plans
from firmware_configs.manifest.plan import DevicePlan, FirstModels, Manifest
from firmware_configs.manifest.tables import ProvisionConfig, provision_table
from transport.config import TLS_PORT, BrokerConfig, broker_config
from wire.ids import check_id

__all__ = ["load_manifest"]


def load_manifest(
    path: Path | str, *, out: Path | None = None, wheels: str | None = None, environ: Mapping[str, str] | None = None
) -> Manifest:
    """Read and check the manifest in a fleet.toml; `out` and `wheels` override the file's."""
    path, environ = Path(path), os.environ if environ is None else environ
    file, base = read_toml(path), path.resolve().parent
    tables = split_tables(file, str(path))
    own = provision_table(file, path, wheels)
    fleet = read(FleetTable, tables["fleet"], f"{path} [fleet]", base=base)
    state = read(StateTable, tables["state"], f"{path} [state]", base=base)
    task = read(TaskConfig, tables["task"], f"{path} [task]", base=base)
    prototypes = read(PrototypesTable, tables["prototypes"], f"{path} [prototypes]", base=base)
    broker = _broker(tables["broker"], path, base, environ)
    host, port = own.host or broker.host, own.port or broker.port
    with _located(path):
        check_id(fleet.id, "fleet")
        known = {full_name(name) for name in prototypes.names}
        common = {"fleet": fleet.id, "host": host, "port": port}
        groups = _groups(file, path)
        plans = [plan for group in groups for plan in device_plans(group, path, base, common, known, own, environ)]
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


def _refuse_twice(devices: Sequence[DevicePlan], path: Path) -> None:
    seen: dict[str, str] = {}
    for device in devices:
        if device.id in seen:
            groups = f"{seen[device.id]!r} and {device.group!r}"
            raise ConfigError(f"{path}: device {device.id!r} is in [[group]] {groups}; each device has one")
        seen[device.id] = device.group
