"""An update: what it says of itself, then what it carries.

2 bytes   little-endian length h of the header
h         `UpdateHeader`, MessagePack
rest      the body: a tensor message (`wire/tensors.py`), or an ONNX graph if the kind is `onnx`
"""

from __future__ import annotations

import struct

from wire.codec import decode_message, encode_message
from wire.errors import EnvelopeError
from wire.messages import UpdateHeader

__all__ = ["decode_update", "encode_update"]

_LENGTH = struct.Struct("<H")
MAX_HEADER = 2**16 - 1


def encode_update(header: UpdateHeader, body: bytes) -> bytes:
    """The payload of an update's envelope."""
    head = encode_message(header)
    if len(head) > MAX_HEADER:
        raise EnvelopeError(f"update of {header.device!r}: header of {len(head)} bytes, at most {MAX_HEADER}")
    return b"".join([_LENGTH.pack(len(head)), head, body])


def decode_update(data: bytes) -> tuple[UpdateHeader, bytes]:
    """The header and the body, which is not looked into."""
    if len(data) < _LENGTH.size:
        raise EnvelopeError("update: too short to hold a header")
    end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
    if end > len(data):
        raise EnvelopeError(f"update: header of {end - _LENGTH.size} bytes does not fit {len(data)} bytes")
    return decode_message(data[_LENGTH.size : end], UpdateHeader), data[end:]
