"""Limits that a process sets on itself before it handles untrusted input. Linux, no privileges needed.

Each applies for the rest of the process's life and to its children, and cannot be raised again.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from contextlib import suppress
from pathlib import Path

__all__ = ["address_space", "die_with_parent", "limit_resources", "no_network", "no_new_files", "no_new_privileges"]

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when `parent` ends, for any reason."""
    _libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # it has ended already


def no_new_privileges() -> None:
    """Programs executed from here on gain no privileges through setuid bits."""
    _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def no_network() -> bool:
    """Move to a separate, isolated network namespace; False if the system does not permit it.

    Requires a single-threaded process.
    """
    return bool(_libc().unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0)


def address_space() -> int:
    """Current address space of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def limit_resources(*, memory: int, cpu_s: int) -> None:
    """At most `memory` bytes of address space in all and `cpu_s` seconds of processor time; no file, core or child.

    When its time is up the process is killed by SIGKILL: it has nothing to clean up.
    """
    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        _lower(what, most)


def no_new_files() -> None:
    """Open descriptors stay open; no file, pipe or socket can be opened any more."""
    _lower(resource.RLIMIT_NOFILE, 0)


def _lower(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(what, (limit, limit))
