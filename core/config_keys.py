"""TOML files of a user: read with one-line errors; what their tables may hold is for `core/settings` to say."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.errors import ConfigError
from core.files import read_regular

__all__ = ["brief", "read_toml", "sub_table"]

_toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
#: Bytes of a config file: a fleet of 10,000 devices by name has less than 2 MB.
MOST_BYTES = 4 * 2**20


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
