"""Atomic writes (temporary file, sync, rename), and safe reads of untrusted files.

A path may name a pipe that never delivers, /dev/zero, or a terabyte. `read_regular` opens without blocking, and reads
only plain files up to a size limit. It raises OSError with a readable text, so code that reports missing files reports
these cases too.
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
    """A descriptor for reading a plain file; `follow`: also through a symbolic link."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    try:
        handle = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:
            raise OSError(errno.ELOOP, "a symbolic link, where a plain file was expected", str(path)) from None
        if error.errno == errno.ENXIO:  # a socket, or an absent device
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
        data = b"" if size > most else file.read(size + 1)  # read allocates the requested size
        if len(data) > size:
            data += file.read(most)  # the file grows while it is read, or has no size, as in /proc
    if size > most or len(data) > most:
        raise OSError(errno.EFBIG, f"larger than the {most:,} bytes that it may have", str(path))
    return data


def named_file(path: Path | str) -> Path:
    """The target of a path, through symbolic links, that will be replaced: a plain file, or none yet."""
    if not os.path.islink(path):
        _refuse_special(Path(path))
        return Path(path)
    try:
        found = Path(path).resolve()
        kind = found.stat().st_mode
    except FileNotFoundError:
        return found
    except RuntimeError:  # Python before 3.13, on a loop of links
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from None
    if not stat.S_ISREG(kind):
        raise OSError(errno.EINVAL, "not a plain file, and not replaced by one", str(path))
    return found


@contextmanager
def atomic_file(path: Path, *, mode: int = 0o644) -> Iterator[IO[bytes]]:
    """A file to write, which replaces `path` atomically and durably when the block ends; if it fails, nothing changes.

    Other users cannot read the bytes before `mode` is applied, or redirect them: they are written to the same folder,
    under an unpredictable name. A symbolic link at `path` is replaced, not followed; a pipe, a device or a folder is
    refused.
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
    """Write `data` to `path` atomically: a reader, or a power cut, sees either the old or the new file."""
    with atomic_file(Path(path), mode=mode) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def sync(path: Path) -> None:
    """Make a file, or changes of a folder's entries, survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def move(source: Path, target: Path) -> None:
    """Rename a file over `target`, or a folder to the free name `target`, durably. Needs no disk space."""
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
