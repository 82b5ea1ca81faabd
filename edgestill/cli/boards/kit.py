"""`edgestill kit`: look into a kit, collect wheels for boards without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgestill.cli.boards.options import Json, KitKey
from edgestill.cli.output import out, print_json

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Kits: check one, collect what is installed with it.")


@app.command()
def verify(
    kit: Annotated[Path, typer.Argument(metavar="KIT", help="The folder of a kit.")],
    key: KitKey = None,
    as_json: Json = False,
) -> None:
    """Check a kit's signature and every file; exit code 5 if it is not what the fleet has signed."""
    from firmware_configs.use_cases.verify_kit import verify_kit

    found = verify_kit(kit, key)
    if as_json:
        print_json(found.facts())
        return
    of = found.kit
    text = f"{of.device} of {of.fleet}, {of.board} ({' '.join(of.os)}), made {of.created}: whole"
    revoked = ", REVOKED" if found.revoked else ""
    out.print(f"{text}, {len(of.files)} files; {found.proof} until {found.until}{revoked}", soft_wrap=True)


@app.command()
def wheels(
    board: Annotated[str, typer.Option("--board", help="For which board; see `edgestill board list`.")],
    folder: Annotated[Path, typer.Option("--out", help="Where the wheels go.")],
    python: Annotated[str, typer.Option("--python", help="Version on the board: Bookworm has 3.11.")] = "3.11",
    package: Annotated[
        str, typer.Option("--package", help="edgestill for pip: a name, a source tree or a wheel.")
    ] = "edgestill",
    as_json: Json = False,
) -> None:
    """Collect everything that an agent needs, for boards without a network at their first boot.

    On a card the installer looks for them in the folder edgestill/wheels of the boot partition.
    """
    from firmware_configs.boards import board as board_named
    from firmware_configs.kits.wheels import collect_wheels

    found = collect_wheels(board_named(board), python, folder, package=package)
    size = sum(path.stat().st_size for path in found)
    if as_json:
        print_json({"wheels": [path.name for path in found], "bytes": size})
    else:
        out.print(f"{len(found)} wheels in {folder}, {size / 1e6:.1f} MB", markup=False, soft_wrap=True)
