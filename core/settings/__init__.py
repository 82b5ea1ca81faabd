"""Configuration as typed structs: TOML, environment variables, flags and sweeps are read into them, by the same rules.

    class AgentConfig(Settings, frozen=True, kw_only=True):
        device: str
        threads: Annotated[int, within(1, 1024, "of the training child")] = 1
        state: Path = Path("state")

    table = read_toml("pi-07.toml")["agent"]
    config = read(AgentConfig, table, "pi-07.toml [agent]", flags={"threads": None}, env="EDGESTILL_AGENT")

A value comes from the first that has it: the flag (None: not given), the environment variable (the prefix, an
underscore and the field in capitals), the file, the struct's default, which is the only one. A field without a default
must be given somewhere. `core/settings/fields.py` has the annotations; what else holds for a struct, such as one field
that needs another, its `__post_init__` says by a ConfigError, in front of which `read` puts the place.

    read(Struct, table, where)     a Struct, from a table and all the rest
    given(Struct, table, where)    what was given somewhere, checked: for defaults that follow from other fields
    value_of(field, text, what)    one value from a text: a variable, NAME=VALUE
    checked(field, value, what)    one value from a file or a program
    check(config)                  every field of a struct that a program made
    replace(config, field=value)   a struct with other values, checked by its `__post_init__` again
    describe(Struct)               what each field is: for --help, docs and sweeps
    plain(config)                  a struct as tables to print; secrets hidden

Other structs are read in their place: `tls: TlsConfig | None = None` reads the table [broker.tls] of [broker].
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from core.config_keys import brief
from core.errors import ConfigError, did_you_mean
from core.settings.fields import REQUIRED, Field, describe, within
from core.settings.values import HIDDEN, LARGEST_FLOAT, LARGEST_INT, checked, value_of

__all__ = [
    "LARGEST_FLOAT",
    "LARGEST_INT",
    "REQUIRED",
    "Field",
    "Settings",
    "check",
    "checked",
    "describe",
    "given",
    "plain",
    "read",
    "replace",
    "value_of",
    "within",
]

S = TypeVar("S", bound=msgspec.Struct)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What configuration structs are made of; its repr hides secrets. Subclasses repeat frozen and kw_only."""

    def __repr__(self) -> str:
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        secret = {name for name, field in describe(type(self)).items() if field.secret and values[name] is not None}
        shown = (f"{name}={HIDDEN if name in secret else repr(value)}" for name, value in values.items())
        return f"{type(self).__name__}({', '.join(shown)})"


def read(
    struct: type[S],
    table: Mapping[str, Any],
    where: str,
    *,
    flags: Mapping[str, Any] | None = None,
    env: str | None = None,
    environ: Mapping[str, str] | None = None,
    base: Path | None = None,
) -> S:
    """A struct from a table of a file, the environment and flags, checked.

    `where` starts the messages, such as "pi-07.toml [agent]"; relative paths of the file are below `base`.
    """
    values = given(struct, table, where, flags=flags, env=env, environ=environ, base=base)
    for name, field in describe(struct).items():
        if name not in values and field.default is REQUIRED:
            variable = _variable(field, env)
            also = f" or set {variable}" if variable else ""
            raise ConfigError(f"{where}: {name!r} is missing; give {field.expected}{also}")
    try:
        return struct(**values)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def given(
    struct: type[msgspec.Struct],
    table: Mapping[str, Any],
    where: str,
    *,
    flags: Mapping[str, Any] | None = None,
    env: str | None = None,
    environ: Mapping[str, str] | None = None,
    base: Path | None = None,
) -> dict[str, Any]:
    """What `read` would build the struct from: the fields that were given somewhere, in the order of the struct."""
    fields = describe(struct)
    for name in table:
        if name not in fields:
            known = did_you_mean(name, fields) or f"; known: {' '.join(fields)}"
            raise ConfigError(f"{where}: unknown key {brief(name)}{known}")
    environ = os.environ if environ is None else environ
    values = {}
    for name, field in fields.items():
        variable = _variable(field, env)
        if flags is not None and flags.get(name) is not None:
            values[name] = checked(field, flags[name], field.flag)
        elif variable in environ:
            values[name] = value_of(field, environ[variable], variable)
        elif name in table and field.table is not None:
            inner = checked(field, table[name], f"{where}: {name!r}")
            values[name] = read(field.table, inner, _inside(where, name), environ={}, base=base)
        elif name in table:
            values[name] = _below(base, checked(field, table[name], f"{where}: {name!r}"))
    return values


def check(config: msgspec.Struct, where: str = "") -> None:
    """Refuse a struct, made by a program, with a value that `read` would have refused; for `__post_init__`."""
    for name, field in describe(type(config)).items():
        value = getattr(config, name)
        if field.table is None and field.parse is None and not (value is None and field.optional):
            checked(field, value, f"{where}: {name!r}" if where else repr(name))


def replace(config: S, **changes: Any) -> S:
    """With these fields changed, and checked again; before 0.21, `msgspec.structs.replace` skips `__post_init__`."""
    return type(config)(**{**msgspec.structs.asdict(config), **changes})


def plain(config: msgspec.Struct) -> dict[str, Any]:
    """A struct and those in it as tables to print: paths as strings, a secret as "(given)"."""
    return {
        name: "(given)" if field.secret and getattr(config, name) is not None else _plain(getattr(config, name))
        for name, field in describe(type(config)).items()
    }


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return plain(value)
    return str(value) if isinstance(value, Path) else value


def _variable(field: Field, env: str | None) -> str:
    return f"{env}_{field.name.upper()}" if env and field.kind is not dict else ""


def _inside(where: str, name: str) -> str:
    """`a.toml [broker]` and `tls`: `a.toml [broker.tls]`."""
    return f"{where[:-1]}.{name}]" if where.endswith("]") else f"{where} [{name}]"


def _below(base: Path | None, value: Any) -> Any:
    if base is not None and isinstance(value, tuple):
        return tuple(_below(base, part) for part in value)
    return base / value if base is not None and isinstance(value, Path) else value
