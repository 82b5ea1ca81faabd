"""Packages that were built for another processor: which of them a process can use, and how its end is recognised.

A wheel may be installable and still not run: its machine code uses instructions that the processor lacks. The process
then dies by SIGILL, or the package notices it first: NumPy raises a RuntimeError about its "baseline optimizations". A
library of another architecture fails to load.
"""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from core.processes.process import Child, end, environment, how_it_ended, start_python

__all__ = ["import_fault", "processor_fault"]

#: An import is waited for as long as it makes progress: torch takes 20 s on the smallest boards, minutes on an emulated
#: one. It hangs if it has used no processor time for IDLE_S; nothing is waited for longer than LIMIT_S.
STEP_S, IDLE_S, LIMIT_S = 5.0, 120.0, 3600.0
ANOTHER = re.compile(
    r"built with baseline optimizations|machine doesn't support|illegal instruction|exec format error"
    r"|wrong elf class|invalid elf header|incompatible architecture|cpu (?:does not|doesn't) support",
    re.IGNORECASE,
)
#: Without the working directory, whose files could have the package's name.
_IMPORT = "import sys; sys.path[:] = [p for p in sys.path if p]; __import__(sys.argv[1])"
NAMES = re.compile(r"\b(numpy|onnxruntime|torch)\b", re.IGNORECASE)


def processor_fault(code: int, text: str) -> str:
    """Why a process with this exit code (negative: the signal) and output failed, if its processor was the reason.

    >>> processor_fault(-4, "")
    'a package was built for another processor (illegal instruction); `edgestill doctor` names it'
    >>> processor_fault(1, "ValueError: x")
    ''
    """
    if code == -signal.SIGILL:
        return "a package was built for another processor (illegal instruction); `edgestill doctor` names it"
    if not ANOTHER.search(text):
        return ""
    names = NAMES.findall(text)
    name = {"numpy": "NumPy"}.get(names[-1].lower(), names[-1].lower()) if names else "a package"
    return f"{name} was built for another processor; `edgestill doctor` says more"


def import_fault(name: str, waiting: Callable[[str], None] | None = None) -> str:
    """Why the installed package `name` cannot be imported, found in a process of its own; empty if it can.

    `waiting` is told once if that takes longer than some seconds.
    """
    child = start_python(("-c", _IMPORT, name), env=environment(threads=1), stderr=subprocess.PIPE)
    try:
        errors, hung = _imported(child, lambda: _tell(waiting, name))
    finally:
        end(child)
    if hung:
        return f"cannot be imported: {hung}"
    code, text = child.returncode, " ".join(errors.decode(errors="replace").split())
    if code == 0:
        return ""
    raised = re.findall(r"\b\w+(?:Error|Exception): .*", text)
    cause = raised[-1][:200] if raised else "illegal instruction" if code == -signal.SIGILL else how_it_ended(code)
    if processor_fault(code, text):
        return f"was built for another processor ({cause}); install a build for this one"
    return f"cannot be imported: {cause}"


def _imported(child: Child, waiting: Callable[[], None]) -> tuple[bytes, str]:
    """What it says on stderr, and why it was not waited for until its end."""
    began = moved = time.monotonic()
    used, told = 0, False
    while True:
        with suppress(subprocess.TimeoutExpired):
            return child.communicate(timeout=STEP_S)[1], ""
        if not told:
            waiting()
            told = True
        now, spent = time.monotonic(), _processor_ticks(child.pid)
        if spent > used:
            used, moved = spent, now
        if now - moved > IDLE_S:
            return b"", f"it has used no processor time for {IDLE_S:g} s"
        if now - began > LIMIT_S:
            return b"", f"it is not done after {LIMIT_S:g} s"


def _tell(waiting: Callable[[str], None] | None, name: str) -> None:
    if waiting is not None:
        waiting(f"importing {name}, which may take minutes on a slow board")


def _processor_ticks(pid: int) -> int:
    """Processor time of a process, in ticks of the system's clock."""
    with suppress(OSError):
        return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
    return 0
