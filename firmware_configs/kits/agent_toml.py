"""agent.toml of a kit: the tables of a device, written as TOML that `edge_agent/config.py` reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.toml_writer import toml_text

__all__ = ["agent_toml"]

COMMENT = "Written by `edgestill provision` from the fleet's manifest; change it there."


def agent_toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """The text of the file; empty tables are omitted."""
    return toml_text({name: table for name, table in tables.items() if table}, comment=COMMENT)
