"""Configures malloc to keep freed memory: training allocates the same megabytes at every step."""

from __future__ import annotations

import ctypes
import sys

__all__ = ["keep_freed_memory"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # constants of glibc's malloc.h
FROM_HEAP, KEPT = 32 * 2**20, 64 * 2**20  # bytes; glibc's upper limit for the first


def keep_freed_memory() -> bool:
    """Make malloc reuse freed memory instead of returning it to the system; returns whether that is supported.

    By default glibc returns large blocks to the system and requests them again: thousands of page faults per device,
    3 % of the training time of McMahan's CNN. No effect without glibc.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has no mallopt
    return mallopt is not None and bool(mallopt(_MMAP_THRESHOLD, FROM_HEAP)) and bool(mallopt(_TRIM_THRESHOLD, KEPT))
