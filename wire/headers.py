"""An update or a published model: its header, then its body.

2 bytes   little-endian length h of the header
h         `UpdateHeader` or `ModelHeader`, MessagePack
rest      the body: a tensor message (`wire/tensors/__init__.py`), or an ONNX graph if the kind is `onnx`
"""

from __future__ import annotations

import struct
from typing import TypeVar

from core.errors import EnvelopeError
from wire.codec import decode_message, encode_message
from wire.messages import Message, ModelHeader, UpdateHeader

__all__ = ["decode_model", "decode_update", "encode_model", "encode_update", "update_head"]

_LENGTH = struct.Struct("<H")
MAX_HEADER = 2**16 - 1


M = TypeVar("M", bound=Message)


def encode_update(header: UpdateHeader, body: bytes) -> bytes:
    """The payload of an update's envelope."""
    return update_head(header) + body


def update_head(header: UpdateHeader) -> bytes:
    """The encoded length and header of an update, which precede its body."""
    return _head(header, f"update of {header.device!r}")


def decode_update(data: bytes) -> tuple[UpdateHeader, bytes]:
    """The header and the body, which is not looked into."""
    return _split(data, UpdateHeader, "update")


def encode_model(header: ModelHeader, body: bytes) -> bytes:
    """The payload of a published model's envelope."""
    return _head(header, f"model {header.prototype!r}") + body


def decode_model(data: bytes) -> tuple[ModelHeader, bytes]:
    """The header and the body, which is not looked into."""
    return _split(data, ModelHeader, "model")


def _head(header: Message, what: str) -> bytes:
    head = encode_message(header)
    if len(head) > MAX_HEADER:
        raise EnvelopeError(f"{what}: header of {len(head)} bytes, at most {MAX_HEADER}")
    return _LENGTH.pack(len(head)) + head


def _split(data: bytes, kind: type[M], what: str) -> tuple[M, bytes]:
    if len(data) < _LENGTH.size:
        raise EnvelopeError(f"{what}: too short to hold a header")
    end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
    if end > len(data):
        raise EnvelopeError(f"{what}: header of {end - _LENGTH.size} bytes does not fit {len(data)} bytes")
    return decode_message(data[_LENGTH.size : end], kind), data[end:]
