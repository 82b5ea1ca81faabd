"""One run in its own process: python -m fleet.experiments.worker EXPERIMENT RUN FIDELITY SEED FOLDER."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from core.errors import EdgestillError
from core.processes.fast_exit import leave_quickly
from fleet.experiments.base import Setting
from fleet.experiments.registry import find_experiment
from fleet.experiments.store import Store, Work

__all__ = ["main", "measure"]


def measure(experiment: str, work: Work, store: Store) -> None:
    """Execute the run and store its facts."""
    runs = find_experiment(experiment).runs(work.fidelity)
    setting = Setting(fidelity=work.fidelity, seed=work.seed, folder=store.scratch(work), say=_say)
    start = time.perf_counter()
    facts = runs[work.run](setting)
    store.write(work, dict(facts), time.perf_counter() - start)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(argv: list[str]) -> int:
    """Exit code 0 on success; otherwise the last line of output is the error."""
    name, run, fidelity, seed, folder = argv
    try:
        measure(name, Work(run, fidelity, int(seed)), Store(Path(folder)))
    except EdgestillError as error:
        _say(str(error))
        return error.exit_code
    return 0


if __name__ == "__main__":
    leave_quickly()
    sys.exit(main(sys.argv[1:]))
