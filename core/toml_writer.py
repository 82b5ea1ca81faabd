"""Write tables as TOML 1.0, which `read_toml` (`core/config_keys.py`) reads back unchanged. The only writer of TOML.

    values before tables; a table within a table is [outer.inner]; within a list, or as `Inline`, it is { key = value }
    strings are basic strings, with every control character escaped; keys are quoted unless they are bare
    None is omitted from tables: TOML has no null

Standard library only: tomllib reads and does not write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from typing import Any

from core.errors import ConfigError

__all__ = ["Inline", "toml_text", "toml_value"]

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


class Inline(dict[str, Any]):
    """A table that is written in one line."""


def toml_text(tables: Mapping[str, Any], *, comment: str = "") -> str:
    """The text of the file; `comment` is its first line. `ConfigError` names a value that TOML cannot represent."""
    head = [f"# {comment}"] if comment else []
    return "\n".join([*head, *_section((), tables, blank=bool(comment)), ""])


def toml_value(value: Any) -> str:
    """The text after the equals sign.

    >>> toml_value(["a", {"b": True}])
    '["a", { b = true }]'
    """
    match value:
        case bool():
            return str(value).lower()
        case str():
            return _string(value)
        case int():
            return str(int(value))
        case float():
            return repr(float(value))
        case datetime() | date() | time():
            return _moment(value)
        case Mapping():
            inner = [f"{_key(name)} = {toml_value(item)}" for name, item in value.items() if item is not None]
            return f"{{ {', '.join(inner)} }}" if inner else "{}"
        case list() | tuple():
            return f"[{', '.join(map(toml_value, value))}]"
    raise ConfigError(f"{value!r} ({type(value).__name__}) cannot be written as TOML")


def _section(path: tuple[str, ...], table: Mapping[str, Any], *, blank: bool) -> Iterator[str]:
    """The lines of a table, and of the tables within it; `blank`: whether to start with an empty line."""
    plain = {key: value for key, value in table.items() if value is not None and not _is_section(value)}
    sections = {key: value for key, value in table.items() if _is_section(value)}
    if path:
        yield from ([""] if blank else [])
        yield f"[{'.'.join(map(_key, path))}]"
        blank = True
    for key, value in plain.items():
        yield f"{_key(key)} = {toml_value(value)}"
        blank = True
    for key, value in sections.items():
        for line in _section((*path, key), value, blank=blank):
            yield line
            blank = True


def _is_section(value: object) -> bool:
    return isinstance(value, Mapping) and not isinstance(value, Inline)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _string(text: str) -> str:
    """A JSON string, with the one control character that JSON does not escape; lone surrogates are refused."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{text!r}: contains a lone surrogate; give text that can be written as UTF-8") from None
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _moment(value: date | time) -> str:
    """TOML supports only offsets of hours and minutes, and none for a time without a date."""
    offset = value.utcoffset() if isinstance(value, datetime | time) else None
    if offset is not None and (isinstance(value, time) or offset.total_seconds() % 60):
        raise ConfigError(f"{value!r} cannot be written as TOML: its time zone")
    return value.isoformat()
