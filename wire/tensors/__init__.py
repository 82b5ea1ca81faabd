"""Named arrays to bytes and back: a safetensors file whose JSON header is factored out. Never pickle.

Format, version 1; all numbers little-endian:

    offset  bytes  field
    0       4      magic "EST", then the version, 0x01
    4       1      header coding: 0 stored, 1 deflated
    5       4      h, length of the coded header
    9       h      header: names, storage and shapes, see wire/tensors/header.py and wire/tensors/entries.py
    9 + h   d      data: the data section of a safetensors file
    9+h+d   4      CRC-32 of all bytes before

The header is deflated (RFC 1951, window 32 KiB, preset dictionary in wire/tensors/frame.py) if and only if that makes
it shorter. It stores no offsets. The data section holds the parts of all tensors without gaps, wider items first, then
by name (`Entry.parts`, `layout`); so d follows from the header and must match to the byte. The receiver locates each
part from the header; `to_safetensors` rebuilds the JSON header for other tools. The state dict of a ResNet-20, 107
tensors, has 10 KB of JSON header, and 0.2 KB here.

The same tensors give the same bytes whatever the order of the dict. NaN and infinity are refused on both sides. The CRC
detects accidental damage; authenticity is provided by the envelope (`wire/envelope.py`).

>>> decode(encode({"b": np.array([1.5, -2.0], np.float16)}))["b"].tolist()
[1.5, -2.0]
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from core.errors import TensorError
from wire.tensors.bits import pack_levels, unpack_levels
from wire.tensors.entries import CODES, DEFAULT_LIMITS, DTYPES, Entry, Limits, check_entries, layout, packed_storage
from wire.tensors.frame import frame, safetensors_file, unframe
from wire.tensors.packed import Packed, check_finite

__all__ = ["Limits", "Packed", "Tensor", "decode", "encode", "to_safetensors"]

Tensor: TypeAlias = "NDArray[Any] | Packed"


def encode(tensors: Mapping[str, Tensor], *, limits: Limits = DEFAULT_LIMITS, checksum: bool = True) -> bytes:
    """One message of all `tensors`: plain arrays (float32, float16, int8, int32, int64, uint8) and `Packed` ones.

    Without a checksum (the field is then 0), only a receiver that knows the message to be intact accepts it.
    """
    entries, arrays = [], {}
    for name in sorted(tensors, key=_utf8):
        try:
            entry, parts = _take_apart(name, tensors[name])
        except TensorError as exc:
            raise type(exc)(f"tensor {name!r}: {exc}") from None
        entries.append(entry)
        arrays.update(parts)
    check_entries(entries, limits)
    data = [arrays[part.key].reshape(-1).view(np.uint8) for part in layout(entries) if part.size]
    return frame(entries, data, limits, checksum=checksum)


def decode(data: bytes, *, limits: Limits = DEFAULT_LIMITS, intact: bool = False) -> dict[str, Tensor]:
    """The tensors of a message, read-only, in ascending order of their names; `TensorError` if the message is invalid.

    `intact`: the message comes from an envelope with a valid signature, or from a process of the same run, and its CRC
    need not be checked.
    """
    entries, parts, view = unframe(data, limits, intact=intact)
    held, at = bytes(view), 0  # one copy with aligned items; the message can be freed
    arrays = {}
    for key, dtype, shape, size in parts:
        try:
            arrays[key] = np.ndarray(shape, DTYPES[dtype], held, at)
        except ValueError as exc:  # an empty array with a dimension beyond the index type
            raise TensorError(f"tensor {key!r}: {exc}") from None
        at += size
    tensors = {}
    for entry in entries:
        try:
            tensors[entry.name] = _put_together(entry, arrays)
        except (TensorError, ValueError) as exc:
            raise TensorError(f"tensor {entry.name!r}: {exc}") from None
    return tensors


def to_safetensors(data: bytes, *, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """The message as a plain safetensors file, for other tools; its metadata describes the packed tensors as JSON."""
    return safetensors_file(*unframe(data, limits))


def _utf8(name: object) -> bytes:
    if not isinstance(name, str):
        raise TensorError(f"tensor {name!r}: a name is a string")
    return name.encode(errors="replace")  # lone surrogates are refused, by name, later on


def _take_apart(name: str, tensor: Tensor) -> tuple[Entry, dict[str, NDArray[Any]]]:
    """The header entry of a tensor, and its contiguous little-endian arrays by part."""
    if isinstance(tensor, Packed):
        tensor.check()
        storage = packed_storage(
            tensor.bits,
            float32=tensor.scale.dtype == np.float32,
            per_channel=tensor.scale.ndim == 1,
            mean=tensor.mean is not None,
        )
        parts = {name: pack_levels(tensor.levels, tensor.bits), f"{name}:scale": _little_endian(tensor.scale)}
        if tensor.mean is not None:
            parts[f"{name}:mean"] = _little_endian(tensor.mean)
        return Entry(name, storage, tensor.levels.shape), parts
    if not isinstance(tensor, np.ndarray):
        raise TensorError(f"a {type(tensor).__name__} is neither an array nor Packed")
    array = _little_endian(tensor)
    if array.dtype not in CODES:
        raise TensorError(f"dtype {tensor.dtype} cannot be sent; use one of {', '.join(str(d) for d in CODES)}")
    check_finite(array, "it")
    return Entry(name, CODES[array.dtype], array.shape), {name: array}


def _little_endian(array: NDArray[Any]) -> NDArray[Any]:
    array = np.asarray(array)  # not a subclass, whose reshape may differ
    if array.flags.c_contiguous and array.dtype in CODES:
        return array
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _put_together(entry: Entry, arrays: dict[str, NDArray[Any]]) -> Tensor:
    array = arrays.pop(entry.name)
    if not entry.packed:
        check_finite(array, "it")
        return _read_only(array)
    levels = unpack_levels(array, entry.bits, math.prod(entry.shape)).reshape(entry.shape)
    scale = _read_only(arrays.pop(f"{entry.name}:scale"))
    mean = _read_only(arrays.pop(f"{entry.name}:mean")) if entry.has_mean else None
    return Packed(bits=entry.bits, levels=_read_only(levels), scale=scale, mean=mean)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
