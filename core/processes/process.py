"""Child processes: start, communicate, stop, and describe how they ended.

    start_python    an interpreter with our packages (`core/processes/python_child.py`), with pipes or with a log
    environment     its environment variables: threads, import path, crash points
    send            bytes to its stdin
    kill, end       immediately; `end` closes its pipes too
    end_all         SIGTERM, wait for a grace time, kill
    end_fork        kills a fork, which has no pipes
    how_it_ended    "ended with exit code 3", "was killed by SIGKILL"
    last_line       of its log

A child is a `subprocess.Popen` of bytes. It gets its own session by default: Ctrl-C reaches only the parent, which
stops it. A child that must not outlive its parent calls `die_with_parent` (`core/processes/process_limits.py`), or ends
with its stdin.
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
    """The environment of a child with the import path of this process and so many threads; None: no limit.

    Without `crash_points` it ignores those of `EDGESTILL_CRASH_AT`: they apply to the first of several children.
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

    With a `log`, all output goes there, and stdin is empty; otherwise stdin and stdout are pipes, and `stderr` is
    inherited unless it is one of subprocess' constants.
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
    """Write to its stdin, and `close` it; False if the child has exited, which the caller will notice."""
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
    """Kill it. Its pipes stay open: a thread may read its last output.

    A process in uninterruptible sleep, such as disk I/O, is waited for at most `patience` seconds.
    """
    if child.poll() is None:
        child.kill()
    with suppress(subprocess.TimeoutExpired):
        child.wait(patience)


def end(child: Child) -> None:
    """Kill it, and close its pipes."""
    kill(child)
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            with suppress(OSError):  # unflushed data has no reader
                pipe.close()


def end_all(children: Iterable[Child], *, grace_s: float) -> None:
    """Send SIGTERM to all, in this order; kill those that still run after `grace_s` seconds."""
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
    """The name of a signal.

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
    """The last line of a child's log, of which only the last bytes are read; empty if there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - TAIL, 0))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""
