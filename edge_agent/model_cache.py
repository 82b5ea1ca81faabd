"""Received models on disk, by digest: whole ones in models/, those still coming in partial/.

A chunk is stored as it comes; which are there is written down every 16 chunks, and checked by hash after a restart, so
a chunk that a power cut tore is simply missing again. The digest of the whole is checked before a model counts. The
least recently used models are thrown away beyond a bound on their size.
"""

from __future__ import annotations

import os
from pathlib import Path

from edge_agent.events import ChunkStored, Fetched, FetchFailed, Resumed
from edge_agent.folders import move, remove
from wire.chunks import MAX_CHUNKS, decode_chunk
from wire.errors import TransferError
from wire.files import write_atomic
from wire.transfer import Receiver

__all__ = ["ModelCache"]

SAVE_EVERY = 16


class _PartFile:
    """A storage whose writes are on the disk, whole, when they return, or raise: a buffer would hide a full disk."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self._handle, size, offset)

    def write(self, offset: int, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(self._handle, view, offset)
            view, offset = view[written:], offset + written

    def close(self, *, durable: bool = False) -> None:
        try:
            if durable:
                os.fsync(self._handle)
        finally:
            os.close(self._handle)


class _Coming:
    def __init__(self, receiver: Receiver, file: _PartFile) -> None:
        self.receiver, self.file = receiver, file
        self.unsaved = 0


class ModelCache:
    """Models by digest, at most about `limit` bytes of them."""

    def __init__(self, root: Path, *, limit: int) -> None:
        self._models, self._partial = root / "models", root / "partial"
        self._limit = limit
        self._coming: dict[str, _Coming] = {}
        for folder in (self._models, self._partial):
            folder.mkdir(parents=True, exist_ok=True)

    def path(self, digest: str) -> Path:
        """Where the model lies once it is fetched."""
        return self._models / digest

    def look(self, digest: str) -> Fetched | Resumed:
        """Is the model here, or what of it?"""
        if self.path(digest).exists():
            os.utime(self.path(digest))
            return Fetched(digest)
        coming = self._coming.get(digest) or self._restore(digest)
        if coming is None:
            return Resumed(digest)
        return Resumed(digest, coming.receiver.content.count, coming.receiver.missing(limit=MAX_CHUNKS))

    def add(self, digest: str, chunk: bytes) -> ChunkStored:
        """Store a chunk; `TransferError` if it is damaged or of another model, OSError if the disk refuses it."""
        decoded = decode_chunk(chunk)
        if decoded.content.digest != digest:
            raise TransferError(f"chunk {decoded.n} of {decoded.content.digest[:12]}… on the topic of {digest[:12]}…")
        coming = self._coming.get(digest)
        if coming is None:
            file = _PartFile(self._partial / digest)
            coming = self._coming[digest] = _Coming(Receiver(decoded.content, file), file)
        if coming.receiver.accept(decoded):
            coming.unsaved += 1
        if coming.unsaved >= SAVE_EVERY:
            write_atomic(self._partial / f"{digest}.state", coming.receiver.save())
            coming.unsaved = 0
        return ChunkStored(digest, decoded.n, decoded.content.count)

    def check(self, digest: str) -> Fetched | FetchFailed:
        """All chunks are here: the model is, if the whole has its digest; else it is thrown away."""
        if self.path(digest).exists():
            return Fetched(digest)
        coming = self._coming.pop(digest, None)
        if coming is None:
            return FetchFailed(digest, "its chunks are gone")
        try:
            try:
                coming.receiver.finish()
            finally:
                coming.file.close(durable=True)
            move(self._partial / digest, self.path(digest))
        except (TransferError, OSError) as error:
            self._discard(digest)
            return FetchFailed(digest, str(error))
        remove(self._partial / f"{digest}.state")
        return Fetched(digest)

    def evict(self, needed: set[str], *, everything: bool = False) -> None:
        """Throw away what is not `needed`: partial models, and over the bound the least recently used whole ones.

        `everything` sets the bound to 0: the disk is full.
        """
        for path in self._partial.iterdir():
            if path.name.removesuffix(".state") not in needed:
                coming = self._coming.pop(path.name, None)
                if coming is not None:
                    coming.file.close()
                remove(path)
        models = sorted((path for path in self._models.iterdir()), key=lambda path: path.stat().st_mtime_ns)
        total = sum(path.stat().st_size for path in models)
        for path in models:
            if total <= (0 if everything else self._limit):
                return
            if path.name not in needed:
                total -= path.stat().st_size
                remove(path)

    def _restore(self, digest: str) -> _Coming | None:
        state = self._partial / f"{digest}.state"
        if not state.exists():
            return None
        file = _PartFile(self._partial / digest)
        try:
            receiver = Receiver.restore(state.read_bytes(), file)
        except TransferError:
            file.close()
            self._discard(digest)
            return None
        if receiver.content.digest != digest:
            file.close()
            self._discard(digest)
            return None
        coming = self._coming[digest] = _Coming(receiver, file)
        return coming

    def _discard(self, digest: str) -> None:
        remove(self._partial / digest)
        remove(self._partial / f"{digest}.state")
