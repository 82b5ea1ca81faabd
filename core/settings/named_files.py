"""Files that the tables of a fleet.toml or an agent.toml name and that are not there, for `edgestill config check`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["MissingFile", "missing_files"]

#: Keys that may have a word instead, such as `noise`: only what looks like a path is one.
WORDS = {("fusion", "source"), ("fusion", "validation")}
#: By table and key: whether the service does not work without the file. Samples of a board may come later.
NAMED: Mapping[str, Mapping[str, bool]] = {
    "state": {"key": True},
    "task": {"validation": True},
    "fusion": {"source": True, "validation": True, "teachers": True},
    "keys": {"private": True, "aggregator": True},
    "model": {"graph": True},
    "data": {"path": False},
}
TLS = ("ca", "cert", "key")
MADE_BY_ENROLMENT = {("keys", "private"), ("broker.tls", "cert"), ("broker.tls", "key")}


@dataclass(frozen=True, slots=True)
class MissingFile:
    """A key whose file is not there."""

    table: str
    key: str
    path: Path
    needed: bool

    def __str__(self) -> str:
        return f"[{self.table}]: {self.key!r}: there is no file {self.path}"


def missing_files(tables: Mapping[str, Mapping[str, Any]]) -> list[MissingFile]:
    """Those of resolved tables; relative paths, of `--set` or a variable, are below the working directory."""
    enrols = bool((tables.get("enrol") or {}).get("cert"))
    return [
        MissingFile(table, key, path, needed)
        for table, key, value, needed in _named(tables)
        if not (enrols and (table, key) in MADE_BY_ENROLMENT)
        for path in map(Path, [value] if isinstance(value, str) else value or ())
        if _is_path(table, key, str(path)) and not path.exists()
    ]


def _is_path(table: str, key: str, text: str) -> bool:
    if (table, key) == ("keys", "aggregator") and re.fullmatch(r"[0-9a-f]{64}", text):
        return False
    return (table, key) not in WORDS or "/" in text or "." in text


def _named(tables: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str, Any, bool]]:
    for table, keys in NAMED.items():
        for key, needed in keys.items():
            yield table, key, tables.get(table, {}).get(key), needed
    tls = tables.get("broker", {}).get("tls") or {}
    for key in TLS:
        yield "broker.tls", key, tls.get(key), True
