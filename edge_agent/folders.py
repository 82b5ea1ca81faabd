"""Folders as units: made durable, moved in one step, told apart by name."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from typing import IO

from wire.errors import ConfigError

__all__ = ["lock", "move", "remove", "sync"]


def sync(folder: Path) -> None:
    """Make what was created, renamed or removed in `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def move(source: Path, target: Path) -> None:
    """Rename a file over `target`, or a folder to the free name `target`, durably. Needs no room on the disk."""
    os.replace(source, target)
    sync(target.parent)
    if source.parent != target.parent:
        sync(source.parent)


def remove(path: Path) -> None:
    """Remove a file or a whole folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def lock(path: Path) -> IO[bytes]:
    """Hold the file's lock as long as the result lives; the system lets go of it whenever the process ends."""
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ConfigError(
            f"{path}: another agent holds it; stop that one, or give this one its own state_dir"
        ) from None
    return file
