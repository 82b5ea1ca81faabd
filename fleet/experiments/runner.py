"""Runs side by side, each in a process of its own with one thread; each leaves a file when it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from fleet.experiments.store import Store, Work

__all__ = ["Progress", "run_all"]

POLL_S = 0.2
STOP_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far it is, several times a second."""

    total: int
    done: int
    running: dict[str, str]  # run: the last thing it said
    ended: tuple[Work, float, bool] | None = None  # the run that has just ended, its seconds, whether it failed


def run_all(
    experiment: str, works: Sequence[Work], store: Store, *, jobs: int = 2, show: Callable[[Progress], None]
) -> dict[Work, str]:
    """Make all of `works`, `jobs` at a time; why some failed, the others having gone on."""
    waiting, failed = list(works), dict[Work, str]()
    running: dict[Work, tuple[subprocess.Popen[bytes], float]] = {}
    ended = 0
    with ExitStack() as stack:
        stack.callback(lambda: _stop([child for child, _ in running.values()]))
        while waiting or running:
            while waiting and len(running) < jobs:
                work = waiting.pop(0)
                running[work] = (_start(experiment, work, store), time.monotonic())
            for work, (child, started) in list(running.items()):
                if child.poll() is None:
                    continue
                del running[work]
                ended += 1
                if child.returncode:
                    failed[work] = _last_line(store.log(work)) or f"exit code {child.returncode}"
                last = (work, time.monotonic() - started, work in failed)
                show(_progress(works, ended, running, store, last))
            show(_progress(works, ended, running, store, None))
            if running:
                time.sleep(POLL_S)
    return failed


def _progress(
    works: Sequence[Work],
    ended: int,
    running: dict[Work, tuple[subprocess.Popen[bytes], float]],
    store: Store,
    last: tuple[Work, float, bool] | None,
) -> Progress:
    said = {str(work): _last_line(store.log(work)) for work in running}
    return Progress(total=len(works), done=ended, running=said, ended=last)


def _start(experiment: str, work: Work, store: Store) -> subprocess.Popen[bytes]:
    # one thread a process: two of torch's collapse on a busy machine
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    # the child finds the packages where this process found them
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), env.get("PYTHONPATH", "")]))
    arguments = [experiment, work.run, work.fidelity, str(work.seed), str(store.folder)]
    with store.log(work).open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "fleet.experiments.worker", *arguments],
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
    """The end of what a run said; only the last bytes are read."""
    try:
        with log.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - 500, 0))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""
