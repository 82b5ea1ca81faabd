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
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, structs

from core.errors import ConfigError
from core.files import read_regular
from core.settings import Settings, check, given, within

__all__ = ["BROKER_KEYS", "ENV", "BrokerConfig", "BrokerTable", "TlsConfig", "broker_config"]

PORT, TLS_PORT = 1883, 8883
ENV = "EDGESTILL_BROKER"
MAX_PASSWORD = 64 * 1024  # bytes; MQTT has no longer ones


class TlsConfig(Settings, frozen=True, kw_only=True):
    """Trust this CA and, if given, show this certificate."""

    ca: Path
    cert: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ConfigError("TLS needs both 'cert' and 'key', or neither; give the one that is missing")


class BrokerConfig(Settings, frozen=True, kw_only=True):
    """One broker, and how to log in."""

    host: str = "127.0.0.1"
    port: Annotated[int, within(1, 65535, "8883 by default if there is [broker.tls]")] = PORT
    tls: TlsConfig | None = None
    username: str | None = None
    password: Annotated[str, Meta(extra={"secret": True})] | None = None
    keepalive_s: Annotated[int, within(1, 65535)] = 30
    protocol: Literal["auto", "3.1.1", "5"] = "auto"

    def __post_init__(self) -> None:
        check(self, "broker")
        if not self.host or any(c.isspace() or c in "/\0" for c in self.host):
            raise ConfigError(f"broker host {self.host!r}; give only a name or an address, such as broker.example")
        if self.password is not None and self.username is None:
            raise ConfigError("broker password without a username; MQTT needs both")

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class BrokerTable(BrokerConfig, frozen=True, kw_only=True):
    """As the file has it."""

    password_file: Annotated[Path, Meta(description="the password, in a file of its own")] | None = None


#: What variables and `--set` may say of a broker.
BROKER_KEYS = tuple(name for name in BrokerTable.__struct_fields__ if name != "tls")


def broker_config(
    table: Mapping[str, object],
    where: str,
    base: Path,
    *,
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
) -> BrokerConfig:
    """The `[broker]` table, checked; relative paths are below `base`, the folder of the config file."""
    values = given(BrokerTable, table, where, flags=flags, env=ENV, environ=environ, base=base)
    tls: TlsConfig | None = values.get("tls")
    for name, path in structs.asdict(tls).items() if tls is not None else ():
        if path is not None and not path.is_file():
            raise ConfigError(f"{where[:-1]}.tls]: {name!r}: there is no file {path}")
    values.setdefault("port", PORT if tls is None else TLS_PORT)
    values["password"] = _password(values.pop("password_file", None), values.get("password"), where)
    try:
        return BrokerConfig(**values)
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
