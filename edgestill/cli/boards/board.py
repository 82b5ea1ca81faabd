"""`edgestill board`: the supported boards, and the user's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from edgestill.cli import completion
from edgestill.cli.boards.options import Json
from edgestill.cli.output import out, print_json, print_table

if TYPE_CHECKING:
    from firmware_configs.boards import Board

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Board profiles: supported boards and suitable prototypes.")

BoardsDir = Annotated[Path | None, typer.Option("--boards-dir", help="Folder with profiles of your own.")]
Manifest = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="fleet.toml whose boards_dir has profiles of your own."),
]


@app.command("list")
def list_boards(boards_dir: BoardsDir = None, config: Manifest = None, as_json: Json = False) -> None:
    """List the boards that a group in fleet.toml may name."""
    known = _known(boards_dir, config).values()
    if as_json:
        print_json([msgspec.to_builtins(board) for board in known])
        return
    rows = [(b.name, b.title, b.memory_mb, " ".join(b.os), b.mode) for b in known]
    print_table("", ["name", "board", "MB", "systems", "training"], rows)


@app.command()
def show(
    name: Annotated[
        str, typer.Argument(help="Name of a board (`edgestill board list`).", autocompletion=completion.boards)
    ],
    boards_dir: BoardsDir = None,
    config: Manifest = None,
    as_json: Json = False,
) -> None:
    """Show one profile: the board's properties, the agent's defaults on it, and its speed in virtual time."""
    from firmware_configs.boards import find

    facts = msgspec.to_builtins(find(name, _known(boards_dir, config)))
    if as_json:
        print_json(facts)
        return
    for key, value in facts.items():
        said = " ".join(value) if isinstance(value, (list, tuple)) else "" if value is None else value
        if isinstance(value, dict):
            said = ", ".join(f"{inner} on {at}" if key == "python" else f"{at} {inner}" for at, inner in value.items())
        out.print(f"{key:12s} {said}".rstrip(), markup=False, soft_wrap=True)


def _known(folder: Path | None, manifest: Path | None) -> dict[str, Board]:
    from core.errors import ConfigError
    from firmware_configs.boards import boards
    from firmware_configs.manifest import read_boards_dir

    if folder is not None and manifest is not None:
        raise ConfigError("--boards-dir and --config exclude each other")
    return boards(read_boards_dir(manifest) if manifest is not None else folder)
