"""The frame of a tensor message: prefix, header, data, checksum; the format is in `wire/tensors/__init__.py`."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import TensorError
from wire.tensors.entries import Entry, Limits, Part, layout
from wire.tensors.header import read_columns, write_columns

__all__ = ["MAGIC", "frame", "safetensors_file", "unframe"]

MAGIC = b"EST\x01"
STORED, DEFLATED = 0, 1
_PREFIX = struct.Struct("<4sBI")
_CRC = struct.Struct("<I")
KNOWN, KNOWN_BYTES = 16, 2**14  # number of cached headers, and the size of the largest
#: Preset dictionary of the header's deflation: words of common state dicts, the most frequent last. Part of the format.
DICTIONARY = (
    b"embedding.\nnorm.weight\nattention.features.0.block.layer1.fc1.gn1.downsample.0.shortcut.1.stage1.0.adapter."
    b"running_mean\nrunning_var\nbias\nweight\nextractor.conv1.weight\nextractor.bn1.bias\n"
    b"predictor.bias\npredictor.weight\n"
)


def frame(
    entries: Sequence[Entry], data: Sequence[NDArray[np.uint8]], limits: Limits, *, checksum: bool = True
) -> bytes:
    """The message of `entries`, whose parts' bytes are `data`, in the order of `layout`."""
    columns = write_columns(entries)
    header, coding = (_coded if len(columns) <= KNOWN_BYTES else _code_header)(columns, limits)
    pieces: list[Any] = [_PREFIX.pack(MAGIC, coding, len(header)), header, *data]
    size = sum(len(piece) for piece in pieces) + _CRC.size
    if size > limits.max_bytes:
        raise TensorError(
            f"message of {size} bytes, at most {limits.max_bytes} are allowed; send fewer tensors or bits"
        )
    crc = 0
    for piece in pieces if checksum else ():
        crc = zlib.crc32(piece, crc)
    return b"".join([*pieces, _CRC.pack(crc)])


def unframe(data: bytes, limits: Limits, *, intact: bool = False) -> tuple[Sequence[Entry], Sequence[Part], memoryview]:
    """Check everything outside the tensors themselves; entries, parts in the order of their bytes, and those bytes.

    `intact`: the bytes are known to be undamaged, so the checksum is not computed.
    """
    if len(data) > limits.max_bytes:
        raise TensorError(f"message of {len(data)} bytes, at most {limits.max_bytes} are allowed")
    if len(data) < _PREFIX.size + _CRC.size:
        raise TensorError(f"message of {len(data)} bytes is too short to hold tensors")
    view = memoryview(data)
    magic, coding, length = _PREFIX.unpack_from(view)
    if magic != MAGIC:
        raise TensorError(f"not a tensor message of version 1: it starts with {magic!r}, not {MAGIC!r}")
    if not intact and zlib.crc32(view[: -_CRC.size]) != _CRC.unpack_from(view, len(data) - _CRC.size)[0]:
        raise TensorError("checksum differs: the message was damaged or cut on its way; send it again")
    body = view[_PREFIX.size : -_CRC.size]
    if length > len(body):
        raise TensorError(f"header of {length} bytes does not fit the message")
    header = _decode_header(bytes(body[:length]), coding, limits)
    entries, parts, size = (_known if len(header) <= KNOWN_BYTES else _read)(header, limits)
    if size != len(body) - length:
        raise TensorError(f"the header describes {size} bytes of tensors, the message holds {len(body) - length}")
    return entries, parts, body[length:]


def safetensors_file(entries: Sequence[Entry], parts: Sequence[Part], data: memoryview) -> bytes:
    """The tensors of an unframed message as a safetensors file."""
    described: dict[str, Any] = {}
    packed = {e.name: f'{{"bits":{e.bits},"shape":{list(e.shape)}}}' for e in entries if e.packed}
    if packed:
        described["__metadata__"] = packed
    at = 0
    for key, dtype, shape, size in parts:
        described[key] = {"dtype": dtype, "shape": shape, "data_offsets": (at, at + size)}
        at += size
    header = json.dumps(described, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)  # keeps the data aligned
    return b"".join([struct.pack("<Q", len(header)), header, data])


def _read(header: bytes, limits: Limits) -> tuple[Sequence[Entry], Sequence[Part], int]:
    entries = read_columns(header, limits)
    parts = layout(entries)
    return tuple(entries), tuple(parts), sum(part.size for part in parts)


#: All updates of a prototype have the same header: it is decoded once and encoded once.
_known = lru_cache(KNOWN)(_read)


def _code_header(raw: bytes, limits: Limits) -> tuple[bytes, int]:
    if len(raw) > limits.max_header:
        raise TensorError(f"header of {len(raw)} bytes, at most {limits.max_header}; use fewer or shorter names")
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_DEFAULT_STRATEGY, DICTIONARY)
    deflated = deflater.compress(raw) + deflater.flush()
    return (deflated, DEFLATED) if len(deflated) < len(raw) else (raw, STORED)


_coded = lru_cache(KNOWN)(_code_header)


def _decode_header(coded: bytes, coding: int, limits: Limits) -> bytes:
    if coding not in (STORED, DEFLATED):
        raise TensorError(f"unknown header coding {coding}")
    if coding == STORED:
        raw, whole = coded[: limits.max_header + 1], True
    else:
        inflater = zlib.decompressobj(-15, DICTIONARY)
        try:
            raw = inflater.decompress(coded, limits.max_header + 1)
        except zlib.error:
            raise TensorError("header: does not inflate") from None
        whole = inflater.eof and not inflater.unused_data
    if len(raw) > limits.max_header:
        raise TensorError(f"header: over {limits.max_header} bytes")
    if not whole:
        raise TensorError("header: breaks off, or is followed by other bytes")
    return raw
