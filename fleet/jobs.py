"""Runs Python processes in parallel, each with one torch thread and its own log; a failure does not stop the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from core.processes.process import Child, end_all, environment, last_line, start_python

__all__ = ["Job", "Progress", "run_jobs"]

POLL_S = 0.2
STOP_S = 5.0
Running = dict["Job", tuple[Child, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One process: `python ARGUMENTS`, whose output goes to `log`."""

    key: Hashable  # str(key) is shown to users
    arguments: tuple[str, ...]
    log: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The state of all jobs, reported several times a second."""

    total: int
    done: int
    running: Mapping[str, str]  # by job: the last line of its log
    ended: tuple[Hashable, float, bool] | None = None  # the job that has just ended, its seconds, whether it failed


def run_jobs(jobs: Sequence[Job], *, at_once: int, show: Callable[[Progress], None]) -> dict[Hashable, str]:
    """Run all jobs, `at_once` at a time, and return the errors of failed jobs by key. Ctrl-C terminates them."""
    waiting, running, failed = list(jobs), Running(), dict[Hashable, str]()
    with ExitStack() as stack:
        stack.callback(lambda: end_all([child for child, _ in running.values()], grace_s=STOP_S))
        while waiting or running:
            while waiting and len(running) < at_once:
                job = waiting.pop(0)
                running[job] = (_start(job), time.monotonic())
            for job in [job for job, (child, _) in running.items() if child.poll() is not None]:
                child, started = running.pop(job)
                if child.returncode:
                    failed[job.key] = last_line(job.log) or f"exit code {child.returncode}"
                ended = (job.key, time.monotonic() - started, job.key in failed)
                show(_progress(len(jobs), waiting, running, ended))
            show(_progress(len(jobs), waiting, running))
            if running:
                time.sleep(POLL_S)
    return failed


def _progress(
    total: int, waiting: Sequence[Job], running: Running, ended: tuple[Hashable, float, bool] | None = None
) -> Progress:
    lines = {str(job.key): last_line(job.log) for job in running}
    return Progress(total=total, done=total - len(waiting) - len(running), running=lines, ended=ended)


def _start(job: Job) -> Child:
    # one thread per process: torch's thread pools slow each other down on a busy machine
    return start_python(job.arguments, env={**environment(), "PYTHONUNBUFFERED": "1"}, log=job.log)
