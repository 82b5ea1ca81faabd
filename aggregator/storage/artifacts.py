"""Published models as sealed bytes, identified by their digest. Imports no torch.

The nonce is derived from the payload, and Ed25519 is deterministic, so a model sealed with the same key always has the
same digest.
"""

from __future__ import annotations

import hashlib

from aggregator.tensor_checks import Published, describe_model
from wire.chunks import DEFAULT_CHUNK, Content
from wire.envelope import NONCE_BYTES, SIGNATURE_BYTES, WITH_TASK, seal
from wire.headers import decode_model, encode_model
from wire.ids import AGGREGATOR
from wire.keys import Ed25519PrivateKey
from wire.messages import ModelHeader
from wire.tensors import decode

__all__ = ["content_of", "open_artifact", "payload_of", "published_tensors", "seal_artifact"]


def seal_artifact(header: ModelHeader, body: bytes, *, key: Ed25519PrivateKey, fleet: str) -> bytes:
    """The artifact of a model whose tensor message is `body`."""
    payload = encode_model(header, body)
    nonce = hashlib.sha256(payload).digest()[:NONCE_BYTES]
    version = None if header.task is None else WITH_TASK
    return seal(
        payload,
        key=key,
        kind="model",
        sender=AGGREGATOR,
        fleet=fleet,
        round=header.round,
        nonce=nonce,
        version=version,
    )


def open_artifact(sealed: bytes) -> tuple[ModelHeader, bytes]:
    """Header and tensor message of one of our own artifacts."""
    return decode_model(payload_of(sealed))


def payload_of(sealed: bytes) -> bytes:
    """The payload of an envelope from our own blobs. Its signature was checked before it was stored."""
    return bytes(memoryview(sealed)[2 + sealed[1] : -SIGNATURE_BYTES])


def content_of(digest: str, size: int) -> Content:
    """The division of an artifact into chunks."""
    return Content(digest=digest, size=size, chunk_size=DEFAULT_CHUNK)


def published_tensors(sealed: bytes) -> Published:
    """The reference for checking updates that start from the artifact."""
    return describe_model(decode(open_artifact(sealed)[1]))
