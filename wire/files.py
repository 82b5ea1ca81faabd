"""Files that are whole or not there: written beside, synced, renamed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["write_atomic"]


def write_atomic(path: Path | str, data: bytes | str, *, mode: int = 0o644) -> None:
    """Put `data` at `path` so that a reader, or a power cut, sees the old file or the new one and nothing between."""
    path = Path(path)
    raw = data.encode() if isinstance(data, str) else data
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the rename itself must survive a power cut
    finally:
        os.close(folder)
