"""Content-addressed files: a blob is named by its SHA-256, written atomically, and never changes.

`put` copies bytes in. `begin` takes over a complete file, or writes bytes, and syncs them on other threads, while the
caller continues; the file system batches concurrent syncs. `adopt` waits for all of them and renames them to their
digests. `put` and `adopt` return only when the blobs and their names are durable.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from core.errors import StorageError
from core.files import sync, write_atomic
from core.processes.pipes import write_all
from wire.ids import DIGEST, check_digest, digest_of

__all__ = ["Blobs"]

SYNCS = 8  # at once
TOGETHER = 8  # files per task of a thread: dispatching one costs as much as writing it
WAY_OUT = "put it back from a backup, or go on from an older model with `edgestill model rollback`"


class Blobs:
    """A folder of blobs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._pool: ThreadPoolExecutor | None = None
        self._begun: dict[str, Path] = {}  # digest: the file that becomes the blob
        self._next: list[
            tuple[Path, bytearray | None]
        ] = []  # not yet dispatched to a thread; with bytes to write first
        self._syncs: list[Future[None]] = []

    def path(self, digest: str) -> Path:
        """The path of the blob."""
        check_digest(digest)
        return self.folder / digest

    def __contains__(self, digest: str) -> bool:
        return self.path(digest).is_file()

    def __iter__(self) -> Iterator[str]:
        return (entry.name for entry in os.scandir(self.folder) if DIGEST.fullmatch(entry.name))

    def put(self, data: bytes) -> str:
        """Store `data`, durably; storing it again does nothing, unless the blob was damaged meanwhile."""
        digest = digest_of(data)
        try:
            self.check(digest, len(data))
        except StorageError:
            write_atomic(self.path(digest), data)
        return digest

    def read(self, digest: str) -> bytes:
        """The bytes of a blob; `StorageError` if they are missing or damaged."""
        try:
            data = self.path(digest).read_bytes()
        except OSError as error:
            raise self._unreadable(digest, error) from error
        if digest_of(data) != digest:
            raise self._damaged(digest)
        return data

    def check(self, digest: str, size: int) -> None:
        """`StorageError` unless the blob exists and is intact; it is read in pieces."""
        path = self.path(digest)
        try:
            with path.open("rb") as file:
                pieces = iter(lambda: file.read(2**20), b"")
                if os.fstat(file.fileno()).st_size != size or digest_of(pieces) != digest:
                    raise self._damaged(digest)
        except OSError as error:
            raise self._unreadable(digest, error) from error

    def size(self, digest: str) -> int:
        """Size of a blob in bytes."""
        try:
            return self.path(digest).stat().st_size
        except OSError as error:
            raise self._unreadable(digest, error) from error

    def _unreadable(self, digest: str, error: OSError) -> StorageError:
        why = "is not there" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        return StorageError(f"blob {digest[:12]}… in {self.folder} {why}; {WAY_OUT}")

    def _damaged(self, digest: str) -> StorageError:
        return StorageError(f"blob {digest[:12]}… in {self.folder} is damaged; {WAY_OUT}")

    def begin(self, digest: str, held: Path | bytearray) -> None:
        """Start turning a complete file, or bytes, with this digest into a blob; it must not change any more."""
        data = None if isinstance(held, Path) else held
        file = self._begun[digest] = held if isinstance(held, Path) else self.folder / f".{digest}"
        self._next.append((file, data))
        if len(self._next) == TOGETHER:
            self._hand_over()

    def adopt(self) -> None:
        """Finish all blobs that were begun; their files are moved. On an error all of them are dropped."""
        begun, self._begun = self._begun, {}
        if not begun:
            return
        try:
            self._end_syncs()
            for digest, file in begun.items():
                os.replace(file, self.path(digest))
            sync(self.folder)
        except BaseException:
            for file in begun.values():
                with contextlib.suppress(OSError):
                    file.unlink(missing_ok=True)
            raise

    def collect(self, named: Iterable[str]) -> int:
        """Delete every blob that is not `named`, and leftovers of an interrupted `put`; returns their number."""
        keep = set(named)
        gone = 0
        for entry in list(os.scandir(self.folder)):
            ours = DIGEST.match(entry.name.removeprefix("."))  # .DIGEST and .DIGEST.xyz were being written
            if ours and entry.name not in keep and entry.name.removeprefix(".") not in self._begun:
                os.unlink(entry.path)
                gone += 1
        return gone

    def close(self) -> None:
        """Stop the sync threads."""
        if self._pool is not None:
            self._pool.shutdown()

    def _hand_over(self) -> None:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(SYNCS, thread_name_prefix="sync")
        self._syncs.append(self._pool.submit(_sync_all, self._next))
        self._next = []

    def _end_syncs(self) -> None:
        rest, self._next = self._next, []
        syncs, self._syncs = self._syncs, []
        try:
            _sync_all(rest)
        finally:
            wait(syncs)
        for done in syncs:
            done.result()  # re-raises its exception


def _sync_all(files: Iterable[tuple[Path, bytearray | None]]) -> None:
    for path, data in files:
        if data is None:
            sync(path)
        else:
            _write_synced(path, data)


def _write_synced(path: Path, data: bytearray) -> None:
    """Write and sync a new file; the caller makes its name durable."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        write_all(file, [data])
        os.fsync(file)
    finally:
        os.close(file)
