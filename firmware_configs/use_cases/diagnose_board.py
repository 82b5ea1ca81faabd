"""Is this board fit to be a device, and would its agent run with this agent.toml?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from firmware_configs.doctor import Facts, Finding, check_board, check_config, look

__all__ = ["Diagnosis", "diagnose_board"]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a board is, and what is right and wrong with it."""

    board: Facts
    findings: tuple[Finding, ...]

    @property
    def suits(self) -> tuple[str, ...]:
        """The prototypes that suit it; none where it has no profile."""
        return tuple(self.board.board.prototypes) if self.board.board else ()

    @property
    def fit(self) -> bool:
        """Whether an agent would run."""
        return all(finding.level != "failure" for finding in self.findings)

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "model": self.board.model,
            "arch": self.board.arch,
            "system": self.board.system,
            "suits": list(self.suits),
            "board": self.board.board.name if self.board.board else None,
            "findings": [asdict(finding) for finding in self.findings],
        }


def diagnose_board(config: Path | None = None, *, root: Path = Path("/")) -> Diagnosis:
    """Look at the board whose file system is at `root`; `config` is an agent.toml to check as well."""
    facts = look(root)
    return Diagnosis(facts, (*check_board(facts), *(check_config(config) if config is not None else ())))
