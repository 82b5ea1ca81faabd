"""Options shared by several commands of a fleet."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["Overrides"]

#: `--set`, of the commands that read an agent.toml or a fleet.toml.
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="Override a setting of the file: table.key=value; repeatable.")
]
