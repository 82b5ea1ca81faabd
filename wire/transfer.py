"""Both ends of a transfer, without I/O: the caller publishes, subscribes, and owns the bytes.

    Sender                                     Receiver
    next() -> numbers; publish chunk(n)   ->   accept(bytes), in any order, any number of times
    acked(n) on the broker's PUBACK
                                          <-   missing() after a while without progress
    resend(ranges)
                                               complete, finish(): the digest of the whole is checked

Nothing here depends on what the broker remembers: after a restart of either side, a reconnection or a loss, the
receiver says what it lacks and the sender sends that. Every call may be repeated without harm.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from core.errors import TopicError, TransferError
from wire.chunks import HASH_BYTES, Chunk, Content, decode_chunk, encode_chunk, fingerprint
from wire.ids import digest_of
from wire.ranges import Gaps, Ranges, expand, to_ranges
from wire.storage import Source, Storage, blocks

__all__ = ["WINDOW", "Receiver", "Sender"]

#: Chunks in flight at once; paho's own default.
WINDOW = 20
MAX_RANGES = 1024


class _Saved(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a receiver must remember across a restart."""

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
        """Store a chunk; False if it was there already, `TransferError` if it is damaged or of another content."""
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
        """Whether every chunk is there; `finish` has the last word."""
        return self._gaps.left == 0

    @property
    def held(self) -> int:
        """How many chunks are there."""
        return len(self._hashes)

    def missing(self, *, limit: int = MAX_RANGES) -> Ranges:
        """The chunks to ask for: the first `limit` ranges of them."""
        return self._gaps.first(limit)

    def finish(self) -> None:
        """Check the digest of the whole. If it differs, forget every chunk: all must come again."""
        if not self.complete:
            raise TransferError(f"transfer of {self.content.digest[:12]}…: {self._gaps.left} chunks are still missing")
        if digest_of(blocks(self._storage, self.content.size)) != self.content.digest:
            self._hashes.clear()
            self._gaps = Gaps(self.content.count)
            raise TransferError(f"transfer of {self.content.digest[:12]}…: the whole has another digest; starting over")

    def save(self) -> bytes:
        """The state to keep beside the stored bytes; 16 bytes per chunk held."""
        held = sorted(self._hashes)
        hashes = b"".join(self._hashes[n] for n in held)
        content = self.content
        return msgspec.msgpack.encode(
            _Saved(1, content.digest, content.size, content.chunk_size, to_ranges(held), hashes)
        )

    @classmethod
    def restore(cls, state: bytes, storage: Storage) -> Receiver:
        """A receiver as it was saved; chunks whose bytes did not reach the storage whole are missing again."""
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


class Sender:
    """Decides which chunks to publish; reads each from its source only then."""

    def __init__(self, content: Content, source: Source, *, window: int = WINDOW, delivered: Ranges = ()) -> None:
        self.content = content
        self._source = source
        self._window = window
        self._delivered = set(expand(delivered, content.count))
        self._in_flight: set[int] = set()
        self._waiting = [n for n in range(content.count) if n not in self._delivered]  # a heap: lowest first

    def next(self) -> list[int]:
        """The chunks to publish now, in flight from here on; empty while the window is full or all are sent."""
        numbers = []
        while self._waiting and len(self._in_flight) < self._window:
            n = heapq.heappop(self._waiting)
            self._in_flight.add(n)
            numbers.append(n)
        return numbers

    def chunk(self, n: int) -> bytes:
        """Chunk `n` as it travels."""
        return encode_chunk(self.content, n, self._source.read(*self.content.span(n)))

    def acked(self, n: int) -> None:
        """The broker has taken chunk `n`; does nothing if it was not in flight."""
        self.content.span(n)
        if n in self._in_flight:
            self._in_flight.remove(n)
            self._delivered.add(n)

    def resend(self, ranges: Iterable[tuple[int, int]]) -> None:
        """The receiver lacks these: those not waiting or in flight are sent again."""
        lacking = set(expand(ranges, self.content.count))
        for n in sorted(lacking & self._delivered):
            self._delivered.remove(n)
            heapq.heappush(self._waiting, n)

    def reconnected(self) -> None:
        """Whatever was in flight may be lost: send it again."""
        for n in self._in_flight:
            heapq.heappush(self._waiting, n)
        self._in_flight.clear()

    @property
    def delivered(self) -> Ranges:
        """The chunks that the broker has taken: give them to a new `Sender` after a restart."""
        return to_ranges(sorted(self._delivered))

    @property
    def idle(self) -> bool:
        """Whether all is sent and the receiver has the word."""
        return len(self._delivered) == self.content.count
