"""Wi-Fi networks and their passwords: in a separate file, or in the environment; never shown.

    [wifi.home]
    ssid = "Greenhouse"
    password = "..."
    country = "DE"

EDGESTILL_WIFI_HOME_PASSWORD (and _SSID, _COUNTRY) override the file, which only its owner may read.
"""

from __future__ import annotations

import functools
import hashlib
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from core.config_keys import read_toml, sub_table
from core.errors import ConfigError, did_you_mean
from core.settings import Settings, read

__all__ = ["Wifi", "read_wifi"]

ENV = "EDGESTILL_WIFI"
COUNTRY = re.compile(r"[A-Z]{2}")


class Wifi(Settings, frozen=True, kw_only=True):
    """One network; without a password it is an open one."""

    ssid: str
    password: Annotated[str, Meta(extra={"secret": True})] | None = None
    country: Annotated[str, Meta(description="country code of two capitals, which determines the allowed channels")]

    def __post_init__(self) -> None:
        if not 1 <= len(self.ssid.encode()) <= 32 or not self.ssid.isprintable():
            raise ConfigError("'ssid': a network's name has 1 to 32 bytes, all printable")
        if self.password is not None and not (8 <= len(self.password) <= 63 and _printable_ascii(self.password)):
            raise ConfigError("'password' (hidden): WPA requires 8 to 63 printable ASCII characters")
        if not COUNTRY.fullmatch(self.country):
            raise ConfigError(f"'country' is {self.country!r}; give two capitals, such as DE")

    @property
    def key(self) -> str | None:
        """The key that WPA derives from the password (IEEE 802.11, J.4), in hex: boards get this instead of the
        password."""
        return None if self.password is None else _derived(self.password, self.ssid)


def read_wifi(path: Path | None, name: str, environ: Mapping[str, str]) -> Wifi:
    """The network called `name`, from the file at `path` and the environment."""
    where = f"{path} [wifi.{name}]" if path is not None else f"Wi-Fi {name!r}"
    prefix = f"{ENV}_{name.upper().replace('-', '_')}"
    networks = _networks(path)
    told = any(variable.startswith(f"{prefix}_") for variable in environ)
    if name not in networks and not told:
        hint = did_you_mean(name, networks) or f"; write [wifi.{name}] in the secrets file, or set {prefix}_SSID"
        raise ConfigError(f"no Wi-Fi {name!r}{hint}")
    return read(Wifi, networks.get(name, {}), where, env=prefix, environ=environ)


@functools.cache  # slow by design, and the same for a whole group
def _derived(password: str, ssid: str) -> str:
    return hashlib.pbkdf2_hmac("sha1", password.encode(), ssid.encode(), 4096, 32).hex()


def _networks(path: Path | None) -> dict[str, dict[str, object]]:
    if path is None:
        return {}
    tables = read_toml(path)
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ConfigError(f"secrets {path}: others can read it; run chmod 600 {path}")
    for name in tables:
        if name != "wifi":
            raise ConfigError(f"{path}: unknown table [{name}]; a secrets file has [wifi.NAME]")
    networks = sub_table(tables, "wifi", str(path))
    return {name: sub_table(networks, name, f"{path} [wifi]") for name in networks}


def _printable_ascii(text: str) -> bool:
    return text.isascii() and text.isprintable()
