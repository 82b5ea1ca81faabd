"""agent.toml of a kit: the tables of a device, written as TOML that `edge_agent/config.py` reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from core.errors import ConfigError

__all__ = ["agent_toml"]


def agent_toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """The tables as a file; tables within tables go one level deep."""
    return "\n".join(_lines(tables))


def _lines(tables: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "# Made by `edgestill provision` from the fleet's manifest, which is the place to change it."
    for name, table in tables.items():
        if not table:
            continue
        yield f"\n[{name}]"
        yield from (f"{key} = {_value(value)}" for key, value in table.items() if not isinstance(value, dict))
        for key, inner in table.items():
            if isinstance(inner, dict):
                yield f"\n[{name}.{key}]"
                yield from (f"{k} = {_value(v)}" for k, v in inner.items())
    yield ""


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        if "\x7f" in value:  # the one character that JSON leaves as it is and TOML does not allow
            raise ConfigError(f"{value!r}: holds a control character")
        return json.dumps(value, ensure_ascii=False)
    assert isinstance(value, int | float), value
    return repr(value)
