"""Faults of our own that a message or a file has found: one line that can be reported, and the agent goes on."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

__all__ = ["tell_fault"]

log = logging.getLogger("edgestill.agent")


def tell_fault(what: str, error: Exception) -> None:
    """Log what was passed over, why, and where in the code; the traceback comes with `level = "debug"`."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(last.filename).name}:{last.lineno}"
    log.error("%s: %s: %s (%s); passed over, please report it", what, type(error).__name__, error, place)
    log.debug("%s", what, exc_info=error)
