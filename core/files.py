"""Files that are whole or not there: written beside, synced, renamed; and files of others, read without trust.

A file that somebody names may be a pipe that never speaks, /dev/zero, or a terabyte. `read_regular` opens without
waiting, reads plain files only, and no more of them than it was told. It raises OSError, with words that fit into a
message, so whoever tells of a missing file tells of these too.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

__all__ = ["atomic_file", "move", "named_file", "open_regular", "read_regular", "sync", "write_atomic"]


def open_regular(path: Path | str, *, follow: bool = True) -> int:
    """A descriptor to read a plain file with; `follow`: also through a symbolic link."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    try:
        handle = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:
            raise OSError(errno.ELOOP, "a symbolic link, where a plain file was expected", str(path)) from None
        if error.errno == errno.ENXIO:  # a socket, or a device that is not there
            raise OSError(errno.EINVAL, "not a plain file", str(path)) from None
        raise
    kind = os.fstat(handle).st_mode
    if not stat.S_ISREG(kind):
        os.close(handle)
        what = "a folder" if stat.S_ISDIR(kind) else "not a plain file"
        raise OSError(errno.EISDIR if stat.S_ISDIR(kind) else errno.EINVAL, what, str(path))
    return handle


def read_regular(path: Path | str, most: int, *, follow: bool = True) -> bytes:
    """All bytes of a plain file of at most `most` bytes."""
    with os.fdopen(open_regular(path, follow=follow), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        data = b"" if size > most else file.read(size + 1)  # read allocates what it is asked for
        if len(data) > size:
            data += file.read(most)  # it grows while it is read, or does not tell its size, as those of /proc
    if size > most or len(data) > most:
        raise OSError(errno.EFBIG, f"larger than the {most:,} bytes that it may have", str(path))
    return data


def named_file(path: Path | str) -> Path:
    """What a path names, through symbolic links, to be written in place of it: a plain file, or none yet."""
    if not os.path.islink(path):
        _refuse_special(Path(path))
        return Path(path)
    try:
        found = Path(path).resolve()
        kind = found.stat().st_mode
    except FileNotFoundError:
        return found
    except RuntimeError:  # what Python before 3.13 says of links in a circle
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from None
    if not stat.S_ISREG(kind):
        raise OSError(errno.EINVAL, "not a plain file, and not replaced by one", str(path))
    return found


@contextmanager
def atomic_file(path: Path, *, mode: int = 0o644) -> Iterator[IO[bytes]]:
    """A file to write, which is put at `path` when the block ends, whole and durable; if the block fails, nothing is.

    Nobody else can read the bytes before `mode` says so, or choose where they go: they are written beside, under a name
    that nobody can know. A symbolic link at `path` is replaced, not followed; a pipe, a device or a folder is left.
    """
    _refuse_special(path)
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
    sync(path.parent)  # the rename itself must survive a power cut


def write_atomic(path: Path | str, data: bytes | str, *, mode: int = 0o644) -> None:
    """Put `data` at `path` so that a reader, or a power cut, sees the old file or the new one and nothing between."""
    with atomic_file(Path(path), mode=mode) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def sync(path: Path) -> None:
    """Make a file, or what was created, renamed or removed in a folder, survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
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


def _refuse_special(path: Path) -> None:
    """A rename onto /dev/null would replace it."""
    try:
        kind = path.lstat().st_mode
    except OSError:
        return
    if not (stat.S_ISREG(kind) or stat.S_ISLNK(kind) or stat.S_ISDIR(kind)):
        raise OSError(errno.EINVAL, "not a plain file, and not replaced by one", str(path))
