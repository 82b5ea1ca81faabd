"""The receiving end of a transfer, without I/O: the caller subscribes, answers, and owns the bytes.

    sender                                     Receiver
    publishes chunks                      ->   accept(bytes), in any order, any number of times
                                          <-   missing() after a while without progress
    publishes those again                 ->   complete, finish(): the digest of the whole is checked
                                               save(), restore(): across a restart

Nothing depends on the broker's state: after a restart of either side, a reconnection or a loss, the receiver lists the
missing chunks and the sender sends them. Every call is idempotent. Agents send updates with
`edge_agent/protocol/upload.py`, the aggregator sends models with `aggregator/downlink/publisher.py`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from core.errors import TopicError, TransferError
from wire.chunks import HASH_BYTES, Chunk, Content, decode_chunk, fingerprint
from wire.ids import digest_of
from wire.ranges import Gaps, Ranges, expand, to_ranges
from wire.storage import Storage, blocks

__all__ = ["Receiver"]

MAX_RANGES = 1024


class _Saved(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The state of a receiver that survives a restart."""

    version: Annotated[int, Meta(ge=1, le=1)]
    digest: str
    size: int
    chunk_size: int
    held: tuple[tuple[int, int], ...]
    hashes: bytes  # of the held chunks, ascending


class Receiver:
    """Collects the chunks of one content into a storage."""

    def __init__(self, content: Content, storage: Storage) -> None:
        self.content = content
        self._storage = storage
        self._hashes: dict[int, bytes] = {}  # of the chunks held
        self._gaps = Gaps(content.count)

    def accept(self, chunk: bytes | Chunk) -> bool:
        """Store a chunk; False for a duplicate, `TransferError` if it is damaged or of another content."""
        if not isinstance(chunk, Chunk):
            chunk = decode_chunk(chunk)
        if chunk.content != self.content:
            raise TransferError(
                f"chunk {chunk.n} of {chunk.content.digest[:12]}… in the transfer of {self.content.digest[:12]}…"
            )
        if chunk.n in self._hashes:
            return False
        self._storage.write(self.content.span(chunk.n)[0], chunk.data)
        self._hold(chunk.n, chunk.hash)
        return True

    @property
    def complete(self) -> bool:
        """Whether every chunk is present; `finish` checks the digest."""
        return self._gaps.left == 0

    @property
    def held(self) -> int:
        """Number of chunks received."""
        return len(self._hashes)

    def missing(self, *, limit: int = MAX_RANGES) -> Ranges:
        """The first `limit` ranges of missing chunks."""
        return self._gaps.first(limit)

    def finish(self) -> None:
        """Check the digest of the whole content. If it differs, discard every chunk: all must be sent again."""
        if not self.complete:
            raise TransferError(f"transfer of {self.content.digest[:12]}…: {self._gaps.left} chunks are still missing")
        if digest_of(blocks(self._storage, self.content.size)) != self.content.digest:
            self._hashes.clear()
            self._gaps = Gaps(self.content.count)
            raise TransferError(f"transfer of {self.content.digest[:12]}…: the whole has another digest; starting over")

    def save(self) -> bytes:
        """The state to store along with the received bytes; 16 bytes per chunk."""
        held = sorted(self._hashes)
        hashes = b"".join(self._hashes[n] for n in held)
        content = self.content
        return msgspec.msgpack.encode(
            _Saved(1, content.digest, content.size, content.chunk_size, to_ranges(held), hashes)
        )

    @classmethod
    def restore(cls, state: bytes, storage: Storage) -> Receiver:
        """Restore a saved receiver; chunks whose bytes did not reach the storage intact are missing again."""
        try:
            saved = msgspec.msgpack.decode(state, type=_Saved)
            receiver = cls(Content(digest=saved.digest, size=saved.size, chunk_size=saved.chunk_size), storage)
            held = list(expand(saved.held, receiver.content.count))
        except (msgspec.MsgspecError, UnicodeDecodeError, TransferError, TopicError) as exc:
            raise TransferError(f"saved transfer: {exc}; delete it to start over") from None
        if len(saved.hashes) != HASH_BYTES * len(held):
            raise TransferError("saved transfer: hashes do not match the chunks held; delete it to start over")
        for i, n in enumerate(held):
            expected = saved.hashes[HASH_BYTES * i : HASH_BYTES * (i + 1)]
            data = storage.read(*receiver.content.span(n))
            if len(data) == receiver.content.span(n)[1] and fingerprint(receiver.content, n, data) == expected:
                receiver._hold(n, expected)
        return receiver

    def _hold(self, n: int, digest: bytes) -> None:
        self._hashes[n] = digest
        self._gaps.fill(n)
