"""Packages that were built for another processor: which of them a process can use, and how its end is recognised.

A wheel may be installable and still not run: its machine code uses instructions that the processor lacks. The process
then dies by SIGILL, or the package notices it first: NumPy raises a RuntimeError about its "baseline optimizations". A
library of another architecture fails to load.
"""

from __future__ import annotations

import re
import signal
import subprocess

from core.processes.process import end, environment, how_it_ended, start_python

__all__ = ["import_fault", "processor_fault"]

IMPORT_S = 120.0  # torch takes 20 s on the smallest boards
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


def import_fault(name: str) -> str:
    """Why the installed package `name` cannot be imported, found in a process of its own; empty if it can."""
    child = start_python(("-c", _IMPORT, name), env=environment(threads=1), stderr=subprocess.PIPE)
    try:
        _, errors = child.communicate(timeout=IMPORT_S)
    except subprocess.TimeoutExpired:
        return f"cannot be imported within {IMPORT_S:g} s"
    finally:
        end(child)
    code, text = child.returncode, " ".join(errors.decode(errors="replace").split())
    if code == 0:
        return ""
    raised = re.findall(r"\b\w+(?:Error|Exception): .*", text)
    cause = raised[-1][:200] if raised else "illegal instruction" if code == -signal.SIGILL else how_it_ended(code)
    if processor_fault(code, text):
        return f"was built for another processor ({cause}); install a build for this one"
    return f"cannot be imported: {cause}"
