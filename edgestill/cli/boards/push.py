"""`edgestill push`: a kit to a running board, over ssh."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from edgestill.cli.output import one_line, out, print_json

__all__ = ["push"]


def push(
    kit: Annotated[Path, typer.Argument(metavar="KIT", help="The folder of a kit.")],
    host: Annotated[str, typer.Argument(metavar="USER@HOST", help="The board, as ssh knows it.")],
    key: Annotated[
        str | None, typer.Option("--key", help="The fleet's kit key, hex or file; else fleet-kit.pub beside the kit.")
    ] = None,
    seconds: Annotated[
        int, typer.Option("--wait", min=1, max=3600, help="Seconds in which the new agent has to report.")
    ] = 60,
    ssh: Annotated[str, typer.Option("--ssh", help="The ssh to use, with options: 'ssh -p 2222'.")] = "ssh",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Install a kit on a board that runs, and go back to what was there if its agent does not report.

    Logs in by key, as root or as a user who may sudo without a password. Exit code 7 if the board went back.
    """
    from firmware_configs.flash.push import push_kit
    from firmware_configs.kits.revoked import check_kit
    from firmware_configs.kits.signed import open_kit

    opened, signed = open_kit(kit, key)
    check_kit(opened, kit.resolve().parent)
    pushed = push_kit(opened, signed, host, seconds=seconds, ssh=shlex.split(ssh))
    if as_json:
        print_json({"device": opened.device, "host": host, "said": list(pushed.lines)})
        return
    for line in pushed.lines:
        out.print(f"{host}: {one_line(line)}", markup=False, soft_wrap=True, highlight=False)
    out.print(f"{host} runs the kit of {opened.device}", markup=False, soft_wrap=True)
