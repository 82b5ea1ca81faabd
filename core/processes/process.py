"""Child processes: start one, talk to it, end it, and say in words how it ended.

    start_python    an interpreter with our packages (`core/processes/python_child.py`), with pipes or with a log
    environment     what it is told: threads, import path, crash points
    send            bytes to its stdin
    kill, end       at once; `end` closes its pipes too
    end_all         ask them to end, wait for a grace time, kill
    end_fork        the same for a fork, which has neither pipes nor patience
    how_it_ended    "ended with exit code 3", "was killed by SIGKILL"
    last_line       of its log

A child is a `subprocess.Popen` of bytes. It gets a session of its own unless told otherwise: Ctrl-C is for the process
that has started it, and that ends it. A child that must not outlive its parent calls `die_with_parent`
(`core/processes/process_limits.py`), or ends with its stdin.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from core.processes.python_child import import_path

__all__ = [
    "Child",
    "end",
    "end_all",
    "end_fork",
    "environment",
    "how_it_ended",
    "kill",
    "last_line",
    "send",
    "signal_name",
    "start_python",
]

Child: TypeAlias = "subprocess.Popen[bytes]"
TAIL = 500  # bytes of a log that `last_line` reads


def environment(
    inherited: Mapping[str, str] | None = None, *, threads: int | None = 1, crash_points: bool = True
) -> dict[str, str]:
    """Of a child that finds what this process finds, with so many threads; None: as many as it likes.

    Without `crash_points` it passes those of `EDGESTILL_CRASH_AT`: they are for the first of a row of children.
    """
    env = dict(os.environ if inherited is None else inherited)
    if threads is not None:
        env |= {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    env["PYTHONPATH"] = import_path(env)
    if not crash_points:
        env.pop("EDGESTILL_CRASH_AT", None)
    return env


def start_python(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    log: Path | None = None,
    append: bool = False,
    stderr: int | None = None,
    session: bool = True,
    cwd: Path | None = None,
) -> Child:
    """`python ARGUMENTS`, mostly of `module_arguments`. OSError if it cannot be started now.

    With a `log`, all that it says goes there, and nothing is said to it; else stdin and stdout are pipes, and `stderr`
    is ours unless it is one of subprocess' numbers.
    """
    command, told = [sys.executable, *arguments], environment() if env is None else dict(env)
    if log is None:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, env=told, cwd=cwd, stdin=pipe, stdout=pipe, stderr=stderr, start_new_session=session
        )
    with log.open("ab" if append else "wb") as file:
        return subprocess.Popen(
            command,
            env=told,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=session,
        )


def send(child: Child, *pieces: bytes, close: bool = False) -> bool:
    """Write to its stdin, whose end it sees with `close`; False if it has ended: it will be seen how."""
    assert child.stdin is not None
    try:
        for piece in pieces:
            child.stdin.write(piece)
        if close:
            child.stdin.close()
        else:
            child.stdin.flush()
    except OSError:
        return False
    return True


def kill(child: Child, *, patience: float | None = None) -> None:
    """End it now. Its pipes stay: a thread may read what it said last.

    One that waits for a disk, say, ends with that: it is waited for at most `patience` seconds.
    """
    if child.poll() is None:
        child.kill()
    with suppress(subprocess.TimeoutExpired):
        child.wait(patience)


def end(child: Child) -> None:
    """End it now, and close its pipes."""
    kill(child)
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            with suppress(OSError):  # what was not flushed finds nobody
                pipe.close()


def end_all(children: Iterable[Child], *, grace_s: float) -> None:
    """Ask all to end, in this order; kill those that still run after `grace_s` seconds."""
    children = list(children)
    for child in children:
        if child.poll() is None:
            child.terminate()
    deadline = time.monotonic() + grace_s
    for child in children:
        with suppress(subprocess.TimeoutExpired):
            child.wait(max(0.1, deadline - time.monotonic()))
        end(child)


def end_fork(pid: int) -> int:
    """Kill a fork of this process, if it still runs; its exit code, negative: the signal. It is reaped here, once."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:  # reaped before
        return -signal.SIGKILL


def signal_name(number: int) -> str:
    """Of a signal.

    >>> signal_name(9), signal_name(77)
    ('SIGKILL', 'signal 77')
    """
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def how_it_ended(code: int | None) -> str:
    """An exit code in words.

    >>> how_it_ended(3), how_it_ended(-9)
    ('ended with exit code 3', 'was killed by SIGKILL')
    """
    if code is not None and code < 0:
        return f"was killed by {signal_name(-code)}"
    return f"ended with exit code {code}"


def last_line(log: Path) -> str:
    """The end of what a child said, of which only the last bytes are read; empty if it said nothing."""
    try:
        with log.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - TAIL, 0))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""
