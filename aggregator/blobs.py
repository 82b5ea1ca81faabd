"""Content-addressed files: a blob is called by its SHA-256, is whole or not there, and never changes.

`put` copies bytes in. `adopt` takes many finished files over by renaming, with their syncs in parallel: the file
system joins syncs that wait together, so 64 updates cost little more than one. Both return only when the blobs, and
their names, are on the disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from wire.errors import RoundError
from wire.files import write_atomic
from wire.ids import DIGEST, check_digest, digest_of

__all__ = ["Blobs"]

SYNCS = 8  # at once


class Blobs:
    """A folder of blobs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._pool: ThreadPoolExecutor | None = None

    def path(self, digest: str) -> Path:
        """Where the blob is, or would be."""
        check_digest(digest)
        return self.folder / digest

    def __contains__(self, digest: str) -> bool:
        return self.path(digest).is_file()

    def __iter__(self) -> Iterator[str]:
        return (entry.name for entry in os.scandir(self.folder) if DIGEST.fullmatch(entry.name))

    def put(self, data: bytes) -> str:
        """Store `data`, durably; storing it again does nothing."""
        digest = digest_of(data)
        if digest not in self:
            write_atomic(self.path(digest), data)
        return digest

    def read(self, digest: str) -> bytes:
        """The bytes of a blob."""
        try:
            return self.path(digest).read_bytes()
        except FileNotFoundError:
            raise RoundError(
                f"blob {digest[:12]}… is not in {self.folder}; was the state folder restored whole?"
            ) from None

    def adopt(self, files: Mapping[str, Path]) -> None:
        """Make each finished file the blob of the digest that it was checked against; the files are gone afterwards."""
        if not files:
            return
        self._sync_all(files.values())
        for digest, file in files.items():
            os.replace(file, self.path(digest))
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def collect(self, named: Iterable[str]) -> int:
        """Delete every blob that is not `named`, and what an interrupted `put` left; how many went."""
        keep = set(named)
        gone = 0
        for entry in list(os.scandir(self.folder)):
            if entry.name not in keep:
                os.unlink(entry.path)
                gone += 1
        return gone

    def close(self) -> None:
        """End the threads that sync."""
        if self._pool is not None:
            self._pool.shutdown()

    def _sync_all(self, files: Iterable[Path]) -> None:
        paths = list(files)
        if len(paths) == 1:
            _sync(paths[0])
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(SYNCS, thread_name_prefix="sync")
        for _ in self._pool.map(_sync, paths):
            pass  # raises what a sync raised


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
