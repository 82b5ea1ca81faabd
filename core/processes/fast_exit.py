"""Fast exit of a process."""

from __future__ import annotations

import atexit
import gc
import io
from contextlib import suppress

__all__ = ["leave_quickly"]

_BUFFERED = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)


def leave_quickly() -> None:
    """Make this process skip the final GC pass at exit: with torch's objects it takes half a second.

    `atexit` handlers still run, and open files are flushed.
    """
    atexit.unregister(_leave)
    atexit.register(_leave)


def _leave() -> None:
    files = [thing for thing in gc.get_objects() if type(thing) in _BUFFERED]
    for file in sorted(files, key=lambda file: _BUFFERED.index(type(file))):  # text first: it flushes into a buffer
        with suppress(OSError, ValueError):  # closed, or its reader is gone
            file.flush()
    gc.freeze()
