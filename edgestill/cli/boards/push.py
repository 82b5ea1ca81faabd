"""`edgestill push`: a kit to a running board, over ssh."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgestill.cli.boards.options import Json, KitKey
from edgestill.cli.output import one_line, out, print_json

__all__ = ["push"]


def push(
    kit: Annotated[Path, typer.Argument(metavar="KIT", help="The folder of a kit.")],
    host: Annotated[str, typer.Argument(metavar="USER@HOST", help="The board, as ssh knows it.")],
    key: KitKey = None,
    seconds: Annotated[
        int, typer.Option("--wait", min=1, max=3600, help="Seconds in which the new agent has to report.")
    ] = 60,
    ssh: Annotated[str, typer.Option("--ssh", help="The ssh to use, with options: 'ssh -p 2222'.")] = "ssh",
    as_json: Json = False,
) -> None:
    """Install a kit on a board that runs, and go back to what was there if its agent does not report.

    Logs in by key, as root or as a user who may sudo without a password. Exit code 7 if the board went back.
    """
    from firmware_configs.use_cases.push_kit import push_folder

    pushed = push_folder(kit, host, key=key, seconds=seconds, ssh=ssh)
    if as_json:
        print_json({"device": pushed.device, "host": host, "said": list(pushed.lines)})
        return
    for line in pushed.lines:
        out.print(f"{host}: {one_line(line)}", markup=False, soft_wrap=True, highlight=False)
    out.print(f"{host} runs the kit of {pushed.device}", markup=False, soft_wrap=True)
