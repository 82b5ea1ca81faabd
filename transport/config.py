"""Address and credentials of the broker: the `[broker]` table of agent.toml and fleet.toml.

    [broker]
    host = "broker.example"      # default 127.0.0.1
    port = 8883                  # default 1883, or 8883 with [broker.tls]
    username = "pi-07"
    password_file = "mqtt.pw"    # or password; better here than in the config file
    keepalive_s = 30
    protocol = "auto"            # auto | 3.1.1 | 5

    [broker.tls]
    ca = "ca.crt"
    cert = "pi-07.crt"           # for a broker that requires client certificates
    key = "pi-07.key"

Environment variables EDGESTILL_BROKER_HOST, EDGESTILL_BROKER_PASSWORD, ... and flags override the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.config_keys import Key, take
from core.errors import ConfigError
from core.files import read_regular

__all__ = ["ENV", "PROTOCOLS", "BrokerConfig", "TlsConfig", "broker_config"]

PROTOCOLS = ("auto", "3.1.1", "5")
PORT, TLS_PORT = 1883, 8883
ENV = "EDGESTILL_BROKER"
MAX_PASSWORD = 64 * 1024  # bytes; MQTT has no longer ones
_KEYS = {
    "host": Key(str, "127.0.0.1"),
    "port": Key(int, None, least=1, most=65535),
    "username": Key(str, None),
    "password": Key(str, None, secret=True),
    "password_file": Key(Path, None),
    "keepalive_s": Key(int, 30, least=1, most=65535),
    "protocol": Key(str, "auto", choices=PROTOCOLS),
    "tls": Key(dict, None),
}
_TLS_KEYS = {"ca": Key(Path), "cert": Key(Path, None), "key": Key(Path, None)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """The trusted CA and, optionally, the client certificate."""

    ca: Path
    cert: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ConfigError("TLS needs both 'cert' and 'key', or neither; give the one that is missing")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """One broker, and how to log in."""

    host: str = "127.0.0.1"
    port: int = PORT
    tls: TlsConfig | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    keepalive_s: int = 30
    protocol: str = "auto"

    def __post_init__(self) -> None:
        if not self.host or any(c.isspace() or c in "/\0" for c in self.host):
            raise ConfigError(f"broker host {self.host!r}; give only a name or an address, such as broker.example")
        if not 1 <= self.port <= 65535:
            raise ConfigError(f"broker port {self.port}; give 1 to 65535")
        if self.password is not None and self.username is None:
            raise ConfigError("broker password without a username; MQTT needs both")
        if not 1 <= self.keepalive_s <= 65535:
            raise ConfigError(f"broker keepalive_s {self.keepalive_s}; give 1 to 65535 seconds")
        if self.protocol not in PROTOCOLS:
            raise ConfigError(f"broker protocol {self.protocol!r}; known: {' '.join(PROTOCOLS)}")

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def broker_config(
    table: Mapping[str, object],
    where: str,
    base: Path,
    *,
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
) -> BrokerConfig:
    """The `[broker]` table, checked; relative paths are below `base`, the folder of the config file."""
    values = take(table, where, _KEYS, flags=flags, env=ENV, environ=environ, base=base)
    values["tls"] = tls = _tls(values["tls"], f"{where[:-1]}.tls]" if where.endswith("]") else where, base)
    values["port"] = values["port"] or (TLS_PORT if tls else PORT)
    values["password"] = _password(values.pop("password_file"), values["password"], where)
    try:
        return BrokerConfig(**values)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _tls(table: dict[str, Any] | None, where: str, base: Path) -> TlsConfig | None:
    if table is None:
        return None
    files = take(table, where, _TLS_KEYS, base=base)
    for name, path in files.items():
        if path is not None and not path.is_file():
            raise ConfigError(f"{where}: {name!r}: there is no file {path}")
    try:
        return TlsConfig(**files)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _password(path: Path | None, password: str | None, where: str) -> str | None:
    if path is None:
        return password
    if password is not None:
        raise ConfigError(f"{where}: 'password' and 'password_file' are both given; keep one")
    try:
        return read_regular(path, MAX_PASSWORD).decode().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{where}: cannot read 'password_file' {path}: {_why(error)}") from error


def _why(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "it is not UTF-8 text"
