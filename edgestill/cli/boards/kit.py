"""`edgestill kit`: verifies a kit, exports it to a folder with its wheels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgestill.cli.boards.options import Json, KitKey
from edgestill.cli.output import out, print_json

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Kits: verify a kit, export it to a folder.")


@app.command()
def verify(
    kit: Annotated[Path, typer.Argument(metavar="KIT", help="Folder of a kit.")],
    key: KitKey = None,
    as_json: Json = False,
) -> None:
    """Verify a kit's signature and all of its files and wheels; exit code 5 if they do not match."""
    from firmware_configs.use_cases.verify_kit import verify_kit

    found = verify_kit(kit, key)
    if as_json:
        print_json(found.facts())
        return
    of = found.kit
    text = f"{of.device} of {of.fleet}, {of.board} ({' '.join(of.os)}), made {of.created}: whole"
    revoked = ", REVOKED" if found.revoked else ""
    wheels = f", {len(of.wheels)} wheels ({found.wheel_bytes / 1e6:.1f} MB)" if of.wheels else ""
    out.print(f"{text}, {len(of.files)} files{wheels}; {found.proof} until {found.until}{revoked}", soft_wrap=True)


@app.command()
def export(
    kit: Annotated[Path, typer.Argument(metavar="KIT", help="The folder of a kit.")],
    to: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="The folder to make.")],
    key: KitKey = None,
    family: Annotated[
        str | None, typer.Option("--os", help="The system of the board: only wheels for that; see `kit verify`.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a kit and its wheels to one folder, to copy to a board by hand; there: sudo sh FOLDER/install.sh

    The folder has the device's keys: remove it when the board is installed.
    """
    from firmware_configs.use_cases.export_kit import export_kit

    made = export_kit(kit, to, key=key, family=family)
    if as_json:
        print_json({"device": made.device, "folder": str(to), "wheels": made.wheels, "bytes": made.bytes})
        return
    text = f"{to}: the kit of {made.device} with {made.wheels} wheels, {made.bytes / 1e6:.1f} MB; it has its keys"
    out.print(text, markup=False, soft_wrap=True)
