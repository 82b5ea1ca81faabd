"""Signed envelopes: authenticated sender, kind and round of an unaltered payload.

Format:

        bytes  field
    1      version
    1      length h of the head
    h      head: MessagePack array [kind, sender, round, nonce of 12 bytes]
    p      payload
    64     Ed25519 signature of  context || fleet || 0x00 || SHA-256(all bytes before the signature)

The version depends on the payload: 2 for kinds with fields that version 1 lacks (`VERSIONS` below), 3 for a model whose
header has a task and an `about` with `data` (`WITH_TASK`), else 1. All are accepted, so that envelopes stored or sent
by an older edgestill can still be opened; and a fleet that says nothing of its task sends no version that an older one
cannot open.

`context` is `CONTEXT` below. It and the fleet are signed but not sent: a signature made for another purpose or another
fleet does not verify here. Signing the hash keeps a 50 MB payload in memory once; Ed25519 itself would read it twice
and need it contiguous with the context.

The signature is checked before the head is parsed: no unauthenticated bytes reach the MessagePack decoder. The topic
determines the public key; its device level is protected by the broker's ACL.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, get_args

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Meta

from core.errors import EnvelopeError, SignatureError
from wire.ids import check_id

__all__ = [
    "MAX_ENVELOPE",
    "MAX_ROUND",
    "NONCE_BYTES",
    "WITH_TASK",
    "Envelope",
    "Kind",
    "open_envelope",
    "seal",
    "sealed_size",
]

VERSIONS = {"job": 2}  # by kind, if not 1
WITH_TASK = 3
READABLE = (1, 2, 3)
CONTEXT = b"edgestill envelope 1\0"
SIGNATURE_BYTES = 64
NONCE_BYTES = 12
MAX_ROUND = 2**32 - 1
#: Bytes of a whole envelope, unless the caller says otherwise: a tensor message and its header fit.
MAX_ENVELOPE = 257 * 2**20

Kind: TypeAlias = Literal[
    "state",
    "about",
    "job",
    "ack",
    "metrics",
    "telemetry",
    "ask",
    "log",
    "desired",
    "reported",
    "installing",
    "enrol",
    "enrolled",
    "update",
    "model",
]
KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """An opened envelope; its signature was valid."""

    kind: Kind
    sender: str
    round: int  # 0: outside any round
    nonce: bytes
    payload: bytes


class _Head(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    kind: Kind
    sender: Annotated[str, Meta(pattern=r"\A[a-z0-9-]{1,48}\Z")]
    round: Annotated[int, Meta(ge=0, le=MAX_ROUND)]
    nonce: Annotated[bytes, Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Head)


def seal(
    *payload: bytes,
    key: Ed25519PrivateKey,
    kind: Kind,
    sender: str,
    fleet: str,
    round: int = 0,  # noqa: A002 - the word of the protocol
    nonce: bytes | None = None,
    version: int | None = None,
) -> bytes:
    """The envelope around `payload`, signed with the sender's key; nonce random, version by kind unless given.

    A payload may be given in pieces, so that a large one need not be copied to join it.
    """
    check_id(sender, "sender")
    if kind not in KINDS:
        raise EnvelopeError(f"envelope of {sender!r}: unknown kind {kind!r}")
    if type(round) is not int or not 0 <= round <= MAX_ROUND:
        raise EnvelopeError(f"envelope of {sender!r}: round {round!r} is not in 0 .. {MAX_ROUND}")
    nonce = secrets.token_bytes(NONCE_BYTES) if nonce is None else nonce
    if len(nonce) != NONCE_BYTES:
        raise EnvelopeError(f"envelope of {sender!r}: nonce of {len(nonce)} bytes, must be {NONCE_BYTES}")
    head = _encoder.encode(_Head(kind, sender, round, nonce))
    opening = bytes([VERSIONS.get(kind, 1) if version is None else version, len(head)]) + head
    return b"".join([opening, *payload, key.sign(_to_sign(fleet, opening, *payload))])


def sealed_size(payload: int, *, kind: Kind, sender: str, round: int = 0) -> int:  # noqa: A002
    """Size of the envelope around a payload of `payload` bytes."""
    return 2 + len(_encoder.encode(_Head(kind, sender, round, bytes(NONCE_BYTES)))) + payload + SIGNATURE_BYTES


def open_envelope(
    data: bytes,
    *,
    public_key: Ed25519PublicKey,
    fleet: str,
    sender: str | None = None,
    kinds: Collection[str] | None = None,
    max_bytes: int = MAX_ENVELOPE,
) -> Envelope:
    """The content of an envelope that `public_key` signed for `fleet`, of the expected `sender` and `kinds`.

    The payload of a memoryview is a view of the same bytes.
    """
    if len(data) > max_bytes:
        raise EnvelopeError(f"envelope of {len(data)} bytes, at most {max_bytes} are allowed")
    if len(data) < 2 + SIGNATURE_BYTES:
        raise EnvelopeError(f"envelope of {len(data)} bytes: too short to hold a signature")
    if data[0] not in READABLE:
        raise EnvelopeError(f"envelope of version {data[0]}: only 1 to {READABLE[-1]} are known; update the older side")
    _verify(data, public_key, fleet)
    start, end = 2 + data[1], len(data) - SIGNATURE_BYTES
    if start > end:
        raise EnvelopeError(f"envelope: head of {data[1]} bytes does not fit")
    try:
        head = _decoder.decode(data[2:start])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise EnvelopeError(f"envelope: bad head: {''.join(c if c.isprintable() else '?' for c in str(exc))}") from None
    _check_expected(head, sender, kinds)
    return Envelope(kind=head.kind, sender=head.sender, round=head.round, nonce=head.nonce, payload=data[start:end])


def _check_expected(head: _Head, sender: str | None, kinds: Collection[str] | None) -> None:
    if sender is not None and head.sender != sender:
        raise EnvelopeError(f"envelope of {head.sender!r} where one of {sender!r} was expected")
    if kinds is not None and head.kind not in kinds:
        raise EnvelopeError(f"envelope of {head.sender!r}: kind {head.kind!r} where {' or '.join(kinds)} was expected")


def _verify(data: bytes, public_key: Ed25519PublicKey, fleet: str) -> None:
    view = memoryview(data)
    try:
        public_key.verify(bytes(view[-SIGNATURE_BYTES:]), _to_sign(fleet, view[:-SIGNATURE_BYTES]))
    except InvalidSignature:
        raise SignatureError("envelope: the signature is not that of the expected key and fleet") from None


def _to_sign(fleet: str, *pieces: bytes | memoryview) -> bytes:
    check_id(fleet, "fleet")
    sha = hashlib.sha256()
    for piece in pieces:
        sha.update(piece)
    return CONTEXT + fleet.encode() + b"\0" + sha.digest()
