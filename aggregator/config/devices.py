"""The table [devices] of fleet.toml: which devices may take part, each by its public key.

keys_dir = "keys"                      a folder of files ID.pub
pi-07 = { key = "64 hex digits" }
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.config_keys import brief
from core.errors import ConfigError, EdgestillError
from core.settings import Settings, read
from wire.ids import check_device
from wire.keys import Ed25519PublicKey, load_public_key, public_key_from_hex

__all__ = ["device_keys"]


class _Devices(Settings, frozen=True, kw_only=True):
    keys_dir: Path | None = None


class _Device(Settings, frozen=True, kw_only=True):
    key: str


def device_keys(table: Mapping[str, Any], where: str, base: Path) -> dict[str, Ed25519PublicKey]:
    """The public key of every device that may take part: named in the table, and the files `ID.pub` of `keys_dir`."""
    table = dict(table)
    own = read(_Devices, {k: table.pop(k) for k in ("keys_dir",) if k in table}, where, base=base)
    found = _from_folder(own.keys_dir, where)
    for name, value in table.items():
        if not isinstance(value, dict):
            raise ConfigError(f'{where}: {name!r} is {brief(value)}; write it as {name} = {{ key = "64 hex digits" }}')
        _checked_id(name, where)
        text = read(_Device, value, f"{where}: {name}").key
        found[name] = _key(lambda text=text: public_key_from_hex(text), f"{where}: {name}")
    return found


def _from_folder(folder: Path | None, where: str) -> dict[str, Ed25519PublicKey]:
    if folder is None:
        return {}
    if not folder.is_dir():
        raise ConfigError(f"{where}: 'keys_dir': there is no folder {folder}")
    files = sorted(folder.glob("*.pub"))
    return {_checked_id(file.stem, str(file)): _key(lambda file=file: load_public_key(file), where) for file in files}


def _checked_id(name: str, where: str) -> str:
    try:
        check_device(name)
    except EdgestillError as error:
        raise ConfigError(f"{where}: {error}") from None
    return name


def _key(load: Any, where: str) -> Ed25519PublicKey:
    try:
        key: Ed25519PublicKey = load()
    except EdgestillError as error:
        raise ConfigError(f"{where}: {error}") from None
    return key
