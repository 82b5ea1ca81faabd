"""`edgestill board`: the supported boards."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec.structs import asdict

from edgestill.cli.boards.options import Json
from edgestill.cli.output import out, print_json, print_table

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Board profiles: supported boards and suitable prototypes.")


@app.command("list")
def list_boards(as_json: Json = False) -> None:
    """List the boards that a group in fleet.toml may name."""
    from firmware_configs.boards import boards

    known = boards().values()
    if as_json:
        print_json([asdict(board) for board in known])
        return
    rows = [(b.name, b.title, b.memory_mb, " ".join(b.os), b.mode) for b in known]
    print_table("", ["name", "board", "MB", "systems", "training"], rows)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Name of a board (`edgestill board list`).")], as_json: Json = False
) -> None:
    """Show one profile: the board's properties, and the agent's defaults on it."""
    from firmware_configs.boards import board

    facts = asdict(board(name))
    if as_json:
        print_json(facts)
        return
    for key, value in facts.items():
        said = " ".join(value) if isinstance(value, tuple) else value
        if isinstance(value, dict):
            said = ", ".join(f"{inner} on {family}" for family, inner in value.items())
        out.print(f"{key:12s} {said}".rstrip(), markup=False, soft_wrap=True)
