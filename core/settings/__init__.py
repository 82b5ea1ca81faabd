"""Configuration as typed structs: TOML, environment variables, flags and sweeps are read into them, by the same rules.

    class AgentConfig(Settings, frozen=True, kw_only=True):
        device: str
        threads: Annotated[int, within(1, 1024, "of the training child")] = 1
        state: Path = Path("state")

    table = read_toml("pi-07.toml")["agent"]
    config = read(AgentConfig, table, "pi-07.toml [agent]", flags={"threads": None}, env="EDGESTILL_AGENT")

A value comes from the first that has it: the flag (None: not given), the environment variable (the prefix, an
underscore and the field in capitals), the file, the struct's default, which is the only one. A field without a default
must be given somewhere. Of fields that exclude each other (`excludes` of Meta), that which comes first wins; two of one
place are for `__post_init__` to refuse. `core/settings/fields.py` has the annotations; what else holds for a struct,
such as one field that needs another, its `__post_init__` says by a ConfigError, which `read` starts with the place.

    read(Struct, table, where)       a Struct, from a table and all the rest
    read_tables(Struct, file, path)  a Struct whose fields are the tables of a file
    given(Struct, table, where)      what was given somewhere, checked: for defaults that follow from other fields
    value_of(field, text, what)      one value from a text: a variable, NAME=VALUE
    checked(field, value, what)      one value from a file or a program
    check(config)                    every field of a struct that a program made
    replace(config, field=value)     a struct with other values, checked by its `__post_init__` again
    describe(Struct)                 what each field is: for --help, docs and sweeps
    plain(config)                    a struct as tables to print; secrets hidden

Other structs are read in their place: `tls: TlsConfig | None = None` reads the table [broker.tls] of [broker].
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from core.config_keys import brief, sub_table
from core.errors import ConfigError, did_you_mean
from core.settings.fields import REQUIRED, Field, describe, within
from core.settings.values import LARGEST_FLOAT, LARGEST_INT, checked, value_of

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
    "read_tables",
    "replace",
    "value_of",
    "within",
]

S = TypeVar("S", bound=msgspec.Struct)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What configuration structs are made of; its repr leaves secrets out. Subclasses repeat frozen and kw_only."""

    def __repr__(self) -> str:
        shown = [name for name, field in describe(type(self)).items() if not field.secret]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


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
    values = given(struct, table, where, flags=flags, env=env, environ=environ, base=base, complete=True)
    try:
        return struct(**values)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def read_tables(
    struct: type[S],
    file: Mapping[str, Any],
    path: str,
    *,
    env: str | None = None,
    environ: Mapping[str, str] | None = None,
    base: Path | None = None,
) -> S:
    """A struct of structs from the tables of a file: the field `round` from [round] and variables <env>_ROUND_<FIELD>.

    A table that is not there is an empty one. Whether the file has others is the caller's to say.
    """
    tables = {}
    for name, field in describe(struct).items():
        assert field.table is not None, f"{struct.__name__}.{name} is no struct"
        prefix = f"{env}_{name.upper()}" if env else None
        table = sub_table(file, name, path)
        tables[name] = read(field.table, table, f"{path} [{name}]", env=prefix, environ=environ, base=base)
    return struct(**tables)


def given(
    struct: type[msgspec.Struct] | Mapping[str, Field],
    table: Mapping[str, Any],
    where: str,
    *,
    flags: Mapping[str, Any] | None = None,
    env: str | None = None,
    environ: Mapping[str, str] | None = None,
    base: Path | None = None,
    complete: bool = False,
) -> dict[str, Any]:
    """What `read` would build the struct from, or some of its fields: those that were given somewhere, in its order.

    `complete` refuses that one without a default is missing.
    """
    fields = struct if isinstance(struct, Mapping) else describe(struct)
    ranks: dict[str, int] = {}
    for name in table:
        if name not in fields:
            known = did_you_mean(name, fields) or f"; known: {' '.join(fields)}"
            raise ConfigError(f"{where}: unknown key {brief(name)}{known}")
    environ = os.environ if environ is None else environ
    values = {}
    for name, field in fields.items():
        variable = _variable(field, env)
        if flags is not None and flags.get(name) is not None:
            values[name], ranks[name] = checked(field, flags[name], field.flag), 2
        elif variable in environ:
            values[name], ranks[name] = value_of(field, environ[variable], variable), 1
        elif name in table and field.table is not None:
            inner = checked(field, table[name], f"{where}: {name!r}")
            values[name] = read(field.table, inner, _inside(where, name), environ={}, base=base)
        elif name in table:
            values[name] = _below(base, checked(field, table[name], f"{where}: {name!r}"))
        elif complete and field.default is REQUIRED:
            also = f" or set {variable}" if variable else ""
            raise ConfigError(f"{where}: {name!r} is missing; give {field.expected}{also}")
    return {name: value for name, value in values.items() if not _overridden(name, fields, ranks)}


def _overridden(name: str, fields: Mapping[str, Field], ranks: Mapping[str, int]) -> bool:
    """Whether a field that excludes this one was given by something that comes before: a flag, or a variable."""
    own = ranks.get(name, 0)
    return any(rank > own and name in fields[other].extra.get("excludes", ()) for other, rank in ranks.items())


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
