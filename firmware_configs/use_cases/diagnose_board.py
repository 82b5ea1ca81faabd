"""Checks whether this board can run an agent, and whether the agent would run with a given agent.toml."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from core.errors import EdgestillError
from edge_agent.config import read_agent_config
from firmware_configs.doctor.board import Facts, check_board, look
from firmware_configs.doctor.config import check_config
from firmware_configs.doctor.findings import Finding

__all__ = ["Diagnosis", "diagnose_board"]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The properties of a board, and the findings of all checks."""

    board: Facts
    findings: tuple[Finding, ...]

    @property
    def suits(self) -> tuple[str, ...]:
        """Suitable prototypes; none without a profile."""
        return tuple(self.board.board.prototypes) if self.board.board else ()

    @property
    def fit(self) -> bool:
        """Whether an agent would run."""
        return all(finding.level != "failure" for finding in self.findings)

    def facts(self) -> dict[str, Any]:
        """The diagnosis as JSON."""
        return {
            "model": self.board.model,
            "arch": self.board.arch,
            "system": self.board.system,
            "suits": list(self.suits),
            "board": self.board.board.name if self.board.board else None,
            "findings": [asdict(finding) for finding in self.findings],
        }


def diagnose_board(
    config: Path | None = None, *, root: Path = Path("/"), waiting: Callable[[str], None] | None = None
) -> Diagnosis:
    """Check the board whose file system is at `root`; `config` is an agent.toml to check as well.

    `waiting` is told what takes long.
    """
    facts = look(root, None if config is None else config.resolve().parent)
    if config is None:
        return Diagnosis(facts, tuple(check_board(facts, waiting=waiting)))
    try:
        loaded = read_agent_config(config)
    except EdgestillError as error:
        return Diagnosis(facts, (*check_board(facts, waiting=waiting), Finding("failure", "config", str(error))))
    findings = (
        *check_board(facts, loaded.train.mode, waiting=waiting),
        *check_config(loaded, config.resolve().parent),
    )
    return Diagnosis(facts, findings)
