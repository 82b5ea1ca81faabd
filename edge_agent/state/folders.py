"""The state folder in any condition: locked by another agent, with damaged files, or with things that are not files."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from pathlib import Path
from typing import IO

from core.errors import ConfigError
from core.files import move, read_regular

__all__ = ["DAMAGED", "lock", "read_small", "remove", "set_aside"]

log = logging.getLogger("edgestill.agent")
DAMAGED = "damaged"  # a folder of the state folder
MAX_SMALL = 2**20


def remove(path: Path) -> None:
    """Remove a file or a whole folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def lock(path: Path) -> IO[bytes]:
    """Hold the file's lock as long as the result lives; the system releases it when the process ends."""
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ConfigError(
            f"{path}: locked by another agent; stop that one, or give this one its own state_dir"
        ) from None
    return file


def read_small(path: Path, limit: int = MAX_SMALL) -> bytes:
    """The bytes of a small file; FileNotFoundError if there is none, ValueError if it is unusable."""
    try:
        return read_regular(path, limit)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from None


def set_aside(root: Path, path: Path, why: str) -> None:
    """Move an unusable file or folder to damaged/ of the state folder `root`, with one log line.

    The last of each name is kept there. If it cannot be renamed, it is removed.
    """
    log.warning("%s: %s; set aside in %s/", os.fsencode(path).decode(errors="backslashreplace"), why, DAMAGED)
    folder = root / DAMAGED
    try:
        if not folder.is_dir():
            remove(folder)
            folder.mkdir()
        remove(folder / path.name)
        move(path, folder / path.name)
    except OSError:
        try:
            remove(path)
        except OSError as error:
            log.error("%s: cannot be removed: %s; do it by hand", path, error.strerror or error)
