"""`edgestill push`: installs a kit on a running board over ssh."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgestill.cli.boards.options import Json, KitKey
from edgestill.cli.output import one_line, out, print_json

__all__ = ["push"]


def push(
    kit: Annotated[Path, typer.Argument(metavar="KIT", help="Folder of a kit.")],
    host: Annotated[str, typer.Argument(metavar="USER@HOST", help="The board, as an ssh destination.")],
    key: KitKey = None,
    seconds: Annotated[
        int, typer.Option("--wait", min=1, max=3600, help="Seconds within which the new agent must report.")
    ] = 60,
    family: Annotated[
        str | None, typer.Option("--os", help="OS family of the board: only its wheels are sent.")
    ] = None,
    ssh: Annotated[str, typer.Option("--ssh", help="The ssh command with options, such as 'ssh -p 2222'.")] = "ssh",
    as_json: Json = False,
) -> None:
    """Install a kit on a running board, and roll back if its agent does not report.

    Logs in by key, as root or as a user with passwordless sudo. Exit code 7 if the board rolled back.
    """
    from firmware_configs.use_cases.push_kit import push_folder

    pushed = push_folder(kit, host, key=key, family=family, seconds=seconds, ssh=ssh)
    if as_json:
        print_json({"device": pushed.device, "host": host, "said": list(pushed.lines)})
        return
    for line in pushed.lines:
        out.print(f"{host}: {one_line(line)}", markup=False, soft_wrap=True, highlight=False)
    out.print(f"{host} runs the kit of {pushed.device}", markup=False, soft_wrap=True)
