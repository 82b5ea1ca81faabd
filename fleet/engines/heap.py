"""A heap that keeps what was freed: training allocates the same megabytes again at every step."""

from __future__ import annotations

import ctypes
import sys

__all__ = ["keep_freed_memory"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
FROM_HEAP, KEPT = 32 * 2**20, 64 * 2**20  # bytes; glibc takes no more for the first


def keep_freed_memory() -> bool:
    """Have this process reuse freed memory instead of giving it back; whether that could be asked for.

    By default glibc gives large blocks back to the system and asks for them again, empty: thousands of page faults per
    device, 3 % of the time that McMahan's CNN trains. Elsewhere than on glibc nothing happens.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    return mallopt is not None and bool(mallopt(_MMAP_THRESHOLD, FROM_HEAP)) and bool(mallopt(_TRIM_THRESHOLD, KEPT))
