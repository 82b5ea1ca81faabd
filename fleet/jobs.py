"""Python processes side by side, one torch thread each, with a log each; a failure stops nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Job", "Progress", "run_jobs"]

POLL_S = 0.2
STOP_S = 5.0
Running = dict["Job", tuple[subprocess.Popen[bytes], float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One process: `python ARGUMENTS`, whose output goes to `log`."""

    key: Hashable  # str(key) is what people read
    arguments: tuple[str, ...]
    log: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far it is, several times a second."""

    total: int
    done: int
    running: Mapping[str, str]  # job: the last thing it said
    ended: tuple[Hashable, float, bool] | None = None  # the job that has just ended, its seconds, whether it failed


def run_jobs(jobs: Sequence[Job], *, at_once: int, show: Callable[[Progress], None]) -> dict[Hashable, str]:
    """Run all, `at_once` at a time; why some failed, by key, the others having gone on. Ctrl-C ends them too."""
    waiting, running, failed = list(jobs), Running(), dict[Hashable, str]()
    with ExitStack() as stack:
        stack.callback(lambda: _stop([child for child, _ in running.values()]))
        while waiting or running:
            while waiting and len(running) < at_once:
                job = waiting.pop(0)
                running[job] = (_start(job), time.monotonic())
            for job in [job for job, (child, _) in running.items() if child.poll() is not None]:
                child, started = running.pop(job)
                if child.returncode:
                    failed[job.key] = _last_line(job.log) or f"exit code {child.returncode}"
                ended = (job.key, time.monotonic() - started, job.key in failed)
                show(_progress(len(jobs), waiting, running, ended))
            show(_progress(len(jobs), waiting, running))
            if running:
                time.sleep(POLL_S)
    return failed


def _progress(
    total: int, waiting: Sequence[Job], running: Running, ended: tuple[Hashable, float, bool] | None = None
) -> Progress:
    said = {str(job.key): _last_line(job.log) for job in running}
    return Progress(total=total, done=total - len(waiting) - len(running), running=said, ended=ended)


def _start(job: Job) -> subprocess.Popen[bytes]:
    # one thread a process: two of torch's collapse on a busy machine
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    # the child finds the packages where this process found them
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), env.get("PYTHONPATH", "")]))
    with job.log.open("wb") as log:
        return subprocess.Popen(
            [sys.executable, *job.arguments],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is ours to hand on
        )


def _stop(children: Sequence[subprocess.Popen[bytes]]) -> None:
    for child in children:
        child.terminate()
    deadline = time.monotonic() + STOP_S
    for child in children:
        try:
            child.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _last_line(log: Path) -> str:
    """The end of what a job said; only the last bytes are read."""
    try:
        with log.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - 500, 0))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""
