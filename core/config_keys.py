"""Configuration files: read TOML, then take from each table exactly what is known, with one-line errors.

    KEYS = {"device": Key(str), "threads": Key(int, 1, least=1), "state": Key(Path, Path("state"))}
    table = read_toml("pi-07.toml")
    values = take(table["agent"], "pi-07.toml [agent]", KEYS, flags={"threads": None}, env="EDGESTILL_AGENT")

A value comes from the first that has it: the flag (None: not given), the environment variable (the prefix, an
underscore and the key in capitals), the file, the default. A key without a default must be given somewhere.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from core.errors import ConfigError, did_you_mean
from core.files import read_regular

__all__ = ["REQUIRED", "Key", "brief", "read_toml", "sub_table", "take", "value_of"]

_toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()
_NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
    Path: "a path",
    tuple: "a list of strings",
    dict: "a table",
}
#: Bytes of a config file: a fleet of 10,000 devices by name has less than 2 MB.
MOST_BYTES = 4 * 2**20
#: Where a key says nothing else: what a float64 counts exactly, and no number that only overflows.
LARGEST_INT, LARGEST_FLOAT = 2**53, 1e15
LONGEST_PATH = 4096
GUARD = 1e5  # a bound from here on only keeps slips of the hand out: whoever gave too little need not hear of it
_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True)
class Key:
    """What a key holds: bool, int, float, str, Path, tuple (of strings) or dict (a table, for the caller to take).

    Numbers without `least` or `most` are bounded by LARGEST_INT and LARGEST_FLOAT; neither NaN nor infinity is one.
    """

    kind: type
    default: Any = REQUIRED
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    secret: bool = False  # not to be repeated in messages

    def __post_init__(self) -> None:
        assert self.kind in _NAMES, self.kind


def read_toml(path: Path | str) -> dict[str, Any]:
    """The file's tables; ConfigError with the line if it cannot be read."""
    try:
        return dict(_toml.loads(read_regular(path, MOST_BYTES).decode()))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start} is not UTF-8; save it as UTF-8 text") from error
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}; give the path of a config file") from error
    except _toml.TOMLDecodeError as error:
        text = str(error)
        place = re.search(r"^(.*) \(at (.*)\)$", text, re.DOTALL)  # "... (at line 3, column 5)", "(at end of document)"
        what, where = place.groups() if place else (text, "the file")
        raise ConfigError(f"{path}, {where}: {what[:1].lower()}{what[1:]}") from error
    except RecursionError:
        raise ConfigError(f"{path}: tables or lists are nested too deeply for a config file") from None
    except ValueError as error:  # a whole number of thousands of digits
        raise ConfigError(f"{path}: {error}") from error


def brief(value: Any, most: int = 80) -> str:
    """A value of somebody's file for a message: its repr, cut; also where that is endless or impossible."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an int of thousands of digits; tables in tables
        return f"{type(value).__name__} too large to show"
    return text if len(text) <= most else f"{text[: most - 1]}…"


def sub_table(table: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    """The table `name`, empty if it is not there."""
    value = table.get(name, {})
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: {name!r} is {brief(value)}, expected a table [{name}]")
    return value


def take(
    table: Mapping[str, Any],
    where: str,
    keys: Mapping[str, Key],
    *,
    flags: Mapping[str, Any] | None = None,
    env: str | None = None,
    environ: Mapping[str, str] | None = None,
    base: Path | None = None,
) -> dict[str, Any]:
    """Every key of `keys` with its value, checked.

    `where` starts the messages, such as "pi-07.toml [agent]"; relative paths of the file are below `base`.
    """
    for name in table:
        if name not in keys:
            known = did_you_mean(name, keys) or f"; known: {' '.join(keys)}"
            raise ConfigError(f"{where}: unknown key {brief(name)}{known}")
    environ = os.environ if environ is None else environ
    values = {}
    for name, key in keys.items():
        variable = f"{env}_{name.upper()}" if env and key.kind is not dict else ""
        if flags is not None and flags.get(name) is not None:
            values[name] = _checked(flags[name], key, f"--{name.replace('_', '-')}")
        elif variable in environ:
            values[name] = value_of(environ[variable], key, variable)
        elif name in table:
            value = _checked(table[name], key, f"{where}: {name!r}")
            values[name] = base / value if base is not None and key.kind is Path else value
        elif key.default is REQUIRED:
            also = f" or set {variable}" if variable else ""
            raise ConfigError(f"{where}: {name!r} is missing; give {_NAMES[key.kind]}{also}")
        else:
            values[name] = key.default
    return values


def value_of(text: str, key: Key, what: str) -> Any:
    """The value that a text means for a key, checked; `what` starts the message."""
    return _checked(_from_text(text, key), key, what)


def _from_text(text: str, key: Key) -> Any:
    """The value that an environment variable means; the text itself if it means none, for the check to refuse."""
    try:
        if key.kind is bool:
            return _WORDS.get(text.strip().lower(), text)
        if key.kind is int:
            return int(text)
        if key.kind is float:
            return float(text)
    except ValueError:
        return text
    return [part.strip() for part in text.split(",") if part.strip()] if key.kind is tuple else text


def _checked(value: Any, key: Key, what: str) -> Any:
    kind = key.kind
    if kind is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST_INT:
        value = float(value)
    elif kind is Path and isinstance(value, str) and 0 < len(value) <= LONGEST_PATH and "\0" not in value:
        value = Path(value).expanduser()
    elif kind is tuple and isinstance(value, list):
        value = tuple(value)
    wrong = not isinstance(value, kind) or (kind is int and isinstance(value, bool))
    shown = "(hidden)" if key.secret else brief(value)
    if wrong or (kind is tuple and not all(isinstance(part, str) for part in value)):
        raise ConfigError(f"{what} is {shown}, expected {_NAMES[kind]}")
    if key.choices and value not in key.choices:
        raise ConfigError(f"{what} is {shown}{did_you_mean(str(value), key.choices)}; known: {' '.join(key.choices)}")
    if kind in (int, float):
        largest = LARGEST_INT if kind is int else LARGEST_FLOAT
        least, most = -largest if key.least is None else key.least, largest if key.most is None else key.most
        if not least <= value <= most:  # written so that NaN is refused
            raise ConfigError(f"{what} is {shown}, expected {_NAMES[kind]} {_range(key, most, value)}")
    return value


def _range(key: Key, most: float, value: float) -> str:
    if key.least is not None and not value >= key.least and most >= GUARD:
        return f"of at least {key.least:g}"
    return f"of at most {most:g}" if key.least is None else f"from {key.least:g} to {most:g}"
