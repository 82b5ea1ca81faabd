"""Parallel runs, each in its own process with one thread; each writes a file when it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from core.processes.python_child import module_arguments
from fleet.experiments.store import Store, Work
from fleet.jobs import Job, Progress, run_jobs

__all__ = ["Progress", "run_all"]


def run_all(
    experiment: str, works: Sequence[Work], store: Store, *, jobs: int = 2, show: Callable[[Progress], None]
) -> dict[Work, str]:
    """Execute all of `works`, `jobs` at a time; returns the errors of failed runs."""
    made = {work: _job(experiment, work, store) for work in works}
    failed = run_jobs(list(made.values()), at_once=jobs, show=show)
    return {work: failed[work] for work in works if work in failed}


def _job(experiment: str, work: Work, store: Store) -> Job:
    arguments = (experiment, work.run, work.fidelity, str(work.seed), str(store.folder))
    return Job(key=work, arguments=module_arguments("fleet.experiments.worker", *arguments), log=store.log(work))
