"""`edgestill kit`: verifies a kit, exports it to a folder with its wheels, serves wheels to boards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgestill.cli.boards.options import Json, KitKey
from edgestill.cli.output import out, print_json

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Kits: verify a kit, export it to a folder, serve wheels to boards.")


@app.command()
def verify(
    kit: Annotated[Path, typer.Argument(metavar="KIT", help="Folder of a kit.")],
    key: KitKey = None,
    as_json: Json = False,
) -> None:
    """Verify a kit's signature and all of its files and wheels; exit code 5 if they do not match."""
    from firmware_configs.use_cases.verify_kit import verify_kit

    report = verify_kit(kit, key)
    if as_json:
        print_json(report.facts())
        return
    of = report.kit
    text = f"{of.device} of {of.fleet}, {of.board} ({' '.join(of.os)}), made {of.created}: whole"
    revoked = ", REVOKED" if report.revoked else ""
    wheels = f", {len(of.wheels)} wheels ({report.wheel_bytes / 1e6:.1f} MB)" if of.wheels else ""
    if of.fetch is not None:
        wheels += f", fetched {'from' if of.fetch.always else 'if a card has no room from'} {of.fetch.url}"
    out.print(f"{text}, {len(of.files)} files{wheels}; {report.proof} until {report.until}{revoked}", soft_wrap=True)


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


@app.command()
def serve(
    kits: Annotated[Path, typer.Argument(metavar="KITS", help="The folder of `provision --out`.")] = Path("kits"),
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Address to listen on; 0.0.0.0:8090 for all networks.")
    ] = "127.0.0.1:8090",
) -> None:
    """Serve the wheels in KITS/_wheels to boards that fetch them when they are installed, until Ctrl-C.

    For kits with [provision] wheels_url. Only wheels are served, to clients that know their SHA-256: no list of them,
    no kits and no keys. Boards check what they get, so plain HTTP is safe; what is sent can be read on the way.
    """
    from firmware_configs.use_cases.serve_wheels import serve_wheels

    serve_wheels(kits, listen, _tell)


def _tell(text: str) -> None:
    out.print(text, markup=False, soft_wrap=True)
    out.file.flush()  # it may be a log
