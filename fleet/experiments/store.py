"""Measurements on disk: one file per run, fidelity and seed, written atomically when the run ends.

DIR/cells/RUN.FIDELITY.SEED.json     {"run", "fidelity", "seed", "seconds", "versions", "commit", "facts": {...}}
DIR/logs/RUN.FIDELITY.SEED.log       its output
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import ConfigError, DataError
from core.files import read_regular, write_atomic
from core.versions import versions
from fleet.experiments.checkout import commit

__all__ = ["Store", "Work"]

MAX_KEPT = 256 * 2**20


@dataclass(frozen=True, slots=True, order=True)
class Work:
    """One run to execute."""

    run: str
    fidelity: str
    seed: int

    def __str__(self) -> str:
        return f"{self.run} ({self.fidelity}, seed {self.seed})"

    @property
    def stem(self) -> str:
        """Its file name without suffix, unique per run."""
        plain = re.sub(r"[^\w+-]", lambda match: f"%{ord(match[0]):x}", self.run)
        return f"{plain}.{self.fidelity}.{self.seed}"


class Store:
    """The folder of an experiment's runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self) -> None:
        """Create the folders."""
        try:
            for name in ("cells", "logs"):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"--out {self.folder}: {error.strerror}; choose another folder") from error

    def path(self, work: Work) -> Path:
        """The file of the measured facts."""
        return self.folder / "cells" / f"{work.stem}.json"

    def log(self, work: Work) -> Path:
        """The log file."""
        return self.folder / "logs" / f"{work.stem}.log"

    def scratch(self, work: Work) -> Path:
        """A folder for its own files, which the run creates if it needs one."""
        return self.folder / "files" / work.stem

    def write(self, work: Work, facts: Any, seconds: float) -> None:
        """Store the facts of a run."""
        kept = {
            "run": work.run,
            "fidelity": work.fidelity,
            "seed": work.seed,
            "seconds": round(seconds, 1),
            "versions": versions(),
            "commit": commit(),
            "facts": facts,
        }
        write_atomic(self.path(work), json.dumps(kept, indent=1) + "\n")

    def read(self, work: Work) -> dict[str, Any] | None:
        """The contents of a run's file, or None if there is none."""
        path = self.path(work)
        try:
            kept: dict[str, Any] = json.loads(read_regular(path, MAX_KEPT))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(f"{path}: not readable ({error}); remove it to measure it again") from error
        return kept

    def seeds(self, fidelity: str, runs: Iterable[str]) -> list[int]:
        """The seeds for which all of `runs` are stored."""
        sets = [self._seeds_of(run, fidelity) for run in runs]
        return sorted(set.intersection(*sets)) if sets else []

    def _seeds_of(self, run: str, fidelity: str) -> set[int]:
        start = Work(run, fidelity, 0).stem.rpartition(".")[0] + "."
        names = [p.name.removeprefix(start).removesuffix(".json") for p in (self.folder / "cells").glob("*.json")]
        return {int(name) for name in names if name.isdecimal()}
