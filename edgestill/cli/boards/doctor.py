"""`edgestill doctor`: checks whether this board can run an agent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgestill.cli.boards.options import Json
from edgestill.cli.output import err, out, print_json

if TYPE_CHECKING:
    from firmware_configs.use_cases.diagnose_board import Diagnosis

__all__ = ["doctor"]

STYLES = {"ok": "green", "warning": "yellow", "failure": "red"}


def doctor(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Also check this agent.toml: keys, samples, broker.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check this board: model, suitable prototypes, missing software; exit code 1 if an agent would not run."""
    from firmware_configs.use_cases.diagnose_board import diagnose_board

    diagnosis = diagnose_board(config, waiting=lambda what: err.print(f"edgestill: {what} ..."))
    if as_json:
        print_json(diagnosis.facts())
    else:
        _print(diagnosis)
    if not diagnosis.fit:
        raise typer.Exit(1)


def _print(diagnosis: Diagnosis) -> None:
    facts = diagnosis.board
    out.print(f"{facts.model or facts.arch}, {facts.system}", markup=False, soft_wrap=True)
    for finding in diagnosis.findings:
        out.print(f"{finding.level:8s}", style=STYLES[finding.level], end=" ")
        out.print(f"{finding.what}: {finding.said}", markup=False, soft_wrap=True)
    if facts.board:
        out.print(f"suits    {' '.join(diagnosis.suits)}, batches of {facts.board.batch_size}", markup=False)
