"""The encoding of one chunk of a larger content.

    bytes  field (numbers little-endian)
    1      version, 0x01
    4      size of the whole content
    4      chunk size: all chunks but the last have it
    4      number of this chunk, from 0
    32     SHA-256 of the whole content
    16     first half of the SHA-256 of the 45 bytes before and of the data
    rest   data

A chunk describes its whole transfer, so chunks may arrive in any order, and there is no start message.
Content of 0 bytes is one chunk without data. A chunk is at most 1,900,061 bytes: Mosquitto refuses packets over
2,000,000 by default. Agents and aggregators use chunks of 64 KiB. The aggregator accepts updates in chunks of 4 KiB or
more (`MIN_CHUNK`), unless the update is a single chunk: this bounds the overhead per byte.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

from core.errors import TransferError
from wire.ids import check_digest

__all__ = [
    "DEFAULT_CHUNK",
    "MAX_CHUNK",
    "MIN_CHUNK",
    "Chunk",
    "Content",
    "decode_chunk",
    "decode_place",
    "encode_chunk",
    "fingerprint",
]

VERSION = 1
DEFAULT_CHUNK = 64 * 1024
MIN_CHUNK = 4096  # of an update in several chunks
MAX_CHUNK = 1_900_000
MAX_CHUNKS = 2**16
MAX_SIZE = 512 * 2**20
HASH_BYTES = 16
_HEAD = struct.Struct("<BIII32s")
OVERHEAD = _HEAD.size + HASH_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The content of a transfer: digest, size and chunk size."""

    digest: str  # SHA-256 in hex
    size: int
    chunk_size: int = DEFAULT_CHUNK

    def __post_init__(self) -> None:
        check_digest(self.digest)
        if not 0 <= self.size <= MAX_SIZE:
            raise TransferError(f"content of {self.size} bytes, at most {MAX_SIZE} can be transferred")
        if not 1 <= self.chunk_size <= MAX_CHUNK:
            raise TransferError(f"chunk size {self.chunk_size}: must lie in 1 .. {MAX_CHUNK}")
        if self.count > MAX_CHUNKS:
            raise TransferError(f"{self.count} chunks, at most {MAX_CHUNKS} are allowed; use larger ones")

    @property
    def count(self) -> int:
        """Number of chunks."""
        return max(1, -(-self.size // self.chunk_size))

    def span(self, n: int) -> tuple[int, int]:
        """Offset and size of chunk `n`."""
        if not 0 <= n < self.count:
            raise TransferError(f"chunk {n}: there are {self.count}, counted from 0")
        offset = n * self.chunk_size
        return offset, min(self.chunk_size, self.size - offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A chunk whose hash was verified."""

    content: Content
    n: int
    hash: bytes
    data: memoryview


def encode_chunk(content: Content, n: int, data: bytes) -> bytes:
    """Chunk `n`, whose bytes are `data`."""
    if len(data) != content.span(n)[1]:
        raise TransferError(f"chunk {n}: {len(data)} bytes, must be {content.span(n)[1]}; did the source change?")
    return b"".join([_head(content, n), fingerprint(content, n, data), data])


def decode_chunk(data: bytes, *, max_size: int = MAX_SIZE) -> Chunk:
    """The chunk in `data`, if it is whole and its content is at most `max_size` bytes."""
    if not OVERHEAD <= len(data) <= OVERHEAD + MAX_CHUNK:
        raise TransferError(f"chunk of {len(data)} bytes: must have {OVERHEAD} to {OVERHEAD + MAX_CHUNK}")
    version, size, chunk_size, n, digest = _HEAD.unpack_from(data)
    if version != VERSION:
        raise TransferError(f"chunk of version {version}: only version {VERSION} is known; update the older side")
    if size > max_size:
        raise TransferError(f"chunk {n}: its content of {size} bytes is over the {max_size} that are allowed")
    content = Content(digest=digest.hex(), size=size, chunk_size=chunk_size)
    view = memoryview(data)
    given, body = bytes(view[_HEAD.size : OVERHEAD]), view[OVERHEAD:]
    if len(body) != content.span(n)[1] or given != fingerprint(content, n, body):
        raise TransferError(f"chunk {n} of {content.digest[:12]}…: damaged or cut on its way; it must be sent again")
    return Chunk(content=content, n=n, hash=given, data=body)


def decode_place(data: bytes) -> tuple[str, int]:
    """Digest and number of the chunk in `data`, read from its head: nothing is hashed or checked."""
    if len(data) < OVERHEAD or data[0] != VERSION:
        raise TransferError(f"chunk of {len(data)} bytes: it has no head of version {VERSION}")
    _, _, _, n, digest = _HEAD.unpack_from(data)
    return digest.hex(), n


def fingerprint(content: Content, n: int, data: bytes | memoryview) -> bytes:
    """The hash that chunk `n` carries."""
    sha = hashlib.sha256(_head(content, n))
    sha.update(data)
    return sha.digest()[:HASH_BYTES]


def _head(content: Content, n: int) -> bytes:
    return _HEAD.pack(VERSION, content.size, content.chunk_size, n, bytes.fromhex(content.digest))
