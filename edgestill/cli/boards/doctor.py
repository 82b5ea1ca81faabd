"""`edgestill doctor`: is this board fit to be a device?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from edgestill.cli.output import out, print_json

__all__ = ["doctor"]

STYLES = {"ok": "green", "warning": "yellow", "failure": "red"}


def doctor(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Also check this agent.toml: keys, samples, broker.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what this board is, which prototypes suit it, and what is missing; exit code 1 if an agent would not run."""
    from firmware_configs.doctor import check_board, check_config, look

    facts = look()
    findings = [*check_board(facts), *(check_config(config) if config is not None else ())]
    suits = list(facts.board.prototypes) if facts.board else []
    if as_json:
        told = {"model": facts.model, "arch": facts.arch, "system": facts.system, "suits": suits}
        told["board"] = facts.board.name if facts.board else None  # type: ignore[assignment]
        print_json({**told, "findings": [asdict(finding) for finding in findings]})
    else:
        out.print(f"{facts.model or facts.arch}, {facts.system}", markup=False, soft_wrap=True)
        for finding in findings:
            out.print(f"{finding.level:8s}", style=STYLES[finding.level], end=" ")
            out.print(f"{finding.what}: {finding.said}", markup=False, soft_wrap=True)
        if facts.board:
            out.print(f"suits    {' '.join(suits)}, batches of {facts.board.batch_size}", markup=False)
    if any(finding.level == "failure" for finding in findings):
        raise typer.Exit(1)
