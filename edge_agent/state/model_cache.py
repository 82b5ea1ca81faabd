"""Received models on disk, by digest: complete ones in models/, incomplete ones in partial/.

Chunks are stored as they arrive; the list of stored chunks is written every 16 chunks, and checked by hash after a
restart, so a chunk torn by a power cut is simply missing again. The digest of the whole is verified when a model is
complete, and again at its next use: a model damaged on disk is deleted and fetched again. The least recently used
models are evicted beyond a size limit.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

from core.errors import TransferError
from core.files import move, write_atomic
from edge_agent.protocol.events import ChunkStored, Fetched, FetchFailed, Resumed
from edge_agent.state.folders import read_small, remove
from wire.chunks import MAX_CHUNKS, decode_chunk
from wire.ids import digest_of
from wire.storage import blocks
from wire.transfer import Receiver

__all__ = ["ModelCache", "file_digest"]

log = logging.getLogger("edgestill.agent")
SAVE_EVERY = 16
MAX_STATE = 2**21  # bytes: 16 for each of 2**16 chunks, and little else


def file_digest(path: Path, size: int | None = None) -> str:
    """SHA-256 of a file, of the given size if any; OSError or ValueError if there is no such file."""
    facts = path.stat()
    if not stat.S_ISREG(facts.st_mode) or (size is not None and facts.st_size != size):
        raise ValueError(f"{path.name} is not a file of the right size")
    file = _PartFile(path, os.O_RDONLY)
    try:
        return digest_of(blocks(file, facts.st_size))
    finally:
        file.close()


class _PartFile:
    """A storage with unbuffered, complete writes, or an exception: a buffer would hide a full disk."""

    def __init__(self, path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> None:
        self._handle = os.open(path, flags | os.O_CLOEXEC, 0o644)

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
        """The path of the model once it is fetched."""
        return self._models / digest

    def look(self, digest: str) -> Fetched | Resumed:
        """Whether the model is cached, or which of its chunks are."""
        if self._whole(digest):
            os.utime(self.path(digest))
            return Fetched(digest)
        coming = self._coming.get(digest) or self._restore(digest)
        if coming is None:
            return Resumed(digest)
        return Resumed(digest, coming.receiver.content.count, coming.receiver.missing(limit=MAX_CHUNKS))

    def _whole(self, digest: str) -> bool:
        path = self.path(digest)
        if not os.path.lexists(path):
            return False
        try:
            if file_digest(path) == digest:
                return True
            why = "its bytes have changed"
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
        log.warning("%s: a damaged model (%s); thrown away, it is fetched again", path, why)
        remove(path)
        return False

    def add(self, digest: str, chunk: bytes) -> ChunkStored:
        """Store a chunk; `TransferError` if it is damaged or of another model, OSError if the disk refuses it."""
        decoded = decode_chunk(chunk)
        if decoded.content.digest != digest:
            raise TransferError(f"chunk {decoded.n} of {decoded.content.digest[:12]}… on the topic of {digest[:12]}…")
        coming = self._coming.get(digest)
        if coming is not None and coming.receiver.content != decoded.content:
            self._start_over(digest)  # one of the two is wrong: only the complete digest can tell
            coming = None
        if coming is None:
            self._make_room(digest)
            file = _PartFile(self._partial / digest)
            coming = self._coming[digest] = _Coming(Receiver(decoded.content, file), file)
        if coming.receiver.accept(decoded):
            coming.unsaved += 1
        if coming.unsaved >= SAVE_EVERY:
            write_atomic(self._partial / f"{digest}.state", coming.receiver.save())
            coming.unsaved = 0
        return ChunkStored(digest, decoded.n, decoded.content.count)

    def check(self, digest: str) -> Fetched | FetchFailed:
        """All chunks are stored: verify the digest, and delete them if it differs."""
        if self._whole(digest):
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
        """Delete what is not `needed`: partial models, and beyond the limit the least recently used complete ones.

        `everything` sets the limit to 0: the disk is full.
        """
        for path in self._partial.iterdir():
            if path.name.removesuffix(".state") not in needed:
                coming = self._coming.pop(path.name, None)
                if coming is not None:
                    coming.file.close()
                remove(path)
        models = sorted((path for path in self._models.iterdir()), key=lambda path: path.lstat().st_mtime_ns)
        total = sum(path.lstat().st_size for path in models)
        for path in models:
            if total <= (0 if everything else self._limit):
                return
            if path.name not in needed:
                total -= path.lstat().st_size
                remove(path)

    def _restore(self, digest: str) -> _Coming | None:
        if not (self._partial / f"{digest}.state").exists():
            return None
        try:
            return self._reopen(digest)
        except (TransferError, OSError, ValueError) as error:
            log.warning("%s: %s; starting over", self._partial / digest, error)
            self._discard(digest)
            return None

    def _reopen(self, digest: str) -> _Coming:
        file = _PartFile(self._partial / digest)
        try:
            receiver = Receiver.restore(read_small(self._partial / f"{digest}.state", MAX_STATE), file)
            if receiver.content.digest != digest:
                raise TransferError("saved for another model")
        except (TransferError, OSError, ValueError):
            file.close()
            raise
        coming = self._coming[digest] = _Coming(receiver, file)
        return coming

    def _start_over(self, digest: str) -> None:
        self._coming.pop(digest).file.close()
        self._discard(digest)

    def _make_room(self, digest: str) -> None:
        """Make room for the file of a new transfer: remove anything that is not a file."""
        for path in (self._partial / digest, self._partial / f"{digest}.state"):
            if os.path.lexists(path) and not path.is_file():
                remove(path)

    def _discard(self, digest: str) -> None:
        remove(self._partial / digest)
        remove(self._partial / f"{digest}.state")
