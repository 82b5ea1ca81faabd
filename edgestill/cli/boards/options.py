"""Options shared by several commands about boards."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["Json", "KitKey"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
KitKey = Annotated[
    str | None, typer.Option("--key", help="The fleet's kit key, hex or file [fleet-kit.pub next to the kit].")
]
