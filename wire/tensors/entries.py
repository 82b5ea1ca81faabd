"""One tensor of a message as its header describes it: name, storage and shape, and their limits.

Storage byte of a plain tensor: 0 F32, 1 F16, 2 I8, 3 I32, 4 I64, 5 U8. Of a packed one, from the top bit:

    1 0 0 m c f b b    b: log2 of the bits per level    f: scale is F32, else F16
                       c: one scale per output channel, else one     m: a mean, of the scale's dtype and shape

A packed tensor `w` is up to three entries of the safetensors file: its bit array `w` (U8), `w:scale` and `w:mean`;
therefore no name may contain a colon.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from core.errors import TensorError
from wire.tensors.bits import packed_size

__all__ = [
    "CODES",
    "DEFAULT_LIMITS",
    "DTYPES",
    "PLAIN",
    "Entry",
    "Limits",
    "Part",
    "check_entries",
    "layout",
    "packed_storage",
]

#: Storage byte -> safetensors dtype. The order is the format: never reorder.
PLAIN = ("F32", "F16", "I8", "I32", "I64", "U8")
ITEM_BYTES = {"F32": 4, "F16": 2, "I8": 1, "I32": 4, "I64": 8, "U8": 1}
NUMPY = {"F32": "<f4", "F16": "<f2", "I8": "i1", "I32": "<i4", "I64": "<i8", "U8": "u1"}
DTYPES = {name: np.dtype(code) for name, code in NUMPY.items()}
CODES = {DTYPES[name]: code for code, name in enumerate(PLAIN)}

_PACKED, _MEAN, _CHANNEL, _FLOAT32 = 0x80, 0x10, 0x08, 0x04


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on the resources that decoding a tensor message may take."""

    max_bytes: int = 256 * 2**20  # of the whole message
    max_values: int = 2**27  # over all tensors: a 1-bit level becomes a byte in memory
    max_header: int = 2**20  # bytes, before deflation
    max_tensors: int = 4096
    max_name: int = 200  # UTF-8 bytes
    max_dims: int = 8


DEFAULT_LIMITS = Limits()


class Part(NamedTuple):
    """One entry of the safetensors file: a plain tensor, or the levels, scale or mean of a packed one."""

    key: str
    dtype: str
    shape: tuple[int, ...]
    size: int  # bytes


class Entry(NamedTuple):
    """One tensor as the header describes it."""

    name: str
    storage: int
    shape: tuple[int, ...]

    @property
    def packed(self) -> bool:
        return bool(self.storage & _PACKED)

    @property
    def bits(self) -> int:
        return 1 << (self.storage & 3)

    @property
    def has_mean(self) -> bool:
        return bool(self.storage & _MEAN)

    def parts(self) -> list[Part]:
        """The entries of the safetensors file that make up the tensor."""
        values = math.prod(self.shape)
        if not self.packed:
            dtype = PLAIN[self.storage]
            return [Part(self.name, dtype, self.shape, values * ITEM_BYTES[dtype])]
        size = packed_size(values, self.bits)
        dtype = "F32" if self.storage & _FLOAT32 else "F16"
        shape = self.shape[:1] if self.storage & _CHANNEL else ()
        scale = Part(f"{self.name}:scale", dtype, shape, math.prod(shape) * ITEM_BYTES[dtype])
        parts = [Part(self.name, "U8", (size,), size), scale]
        return [*parts, scale._replace(key=f"{self.name}:mean")] if self.has_mean else parts


def packed_storage(bits: int, *, float32: bool, per_channel: bool, mean: bool) -> int:
    """The storage byte of a packed tensor."""
    return _PACKED | bits.bit_length() - 1 | _FLOAT32 * float32 | _CHANNEL * per_channel | _MEAN * mean


def layout(entries: Iterable[Entry]) -> list[Part]:
    """All parts in the order of their bytes: widest items first, so that each is aligned, then by name."""
    return sorted((p for e in entries for p in e.parts()), key=lambda p: (-ITEM_BYTES[p.dtype], p.key))


def check_entries(entries: Sequence[Entry], limits: Limits) -> None:
    """Refuse names, storage or shapes outside the format or the limits; entries must be sorted by name."""
    if len(entries) > limits.max_tensors:
        raise TensorError(f"{len(entries)} tensors, at most {limits.max_tensors} are allowed")
    before, total = b"", 0
    for entry in entries:
        name = _check_name(entry.name, limits)
        if name <= before:
            raise TensorError(f"tensor {entry.name!r}: duplicate name, or names out of order")
        before = name
        _check_storage(entry)
        if len(entry.shape) > limits.max_dims or any(d > limits.max_values for d in entry.shape):
            raise TensorError(f"tensor {entry.name!r}: absurd shape {entry.shape}")
        total += math.prod(entry.shape)
        if total > limits.max_values:
            raise TensorError(f"tensor {entry.name!r}: over {limits.max_values} values in one message; split the model")


def _check_name(name: str, limits: Limits) -> bytes:
    if not name or not name.isprintable() or ":" in name or name == "__metadata__":
        raise TensorError(f"tensor {name[:80]!r}: a name is printable, not empty, and contains no ':'")
    encoded = name.encode()
    if len(encoded) > limits.max_name:
        raise TensorError(f"tensor {name[:40]!r}…: name of {len(encoded)} bytes, at most {limits.max_name}")
    return encoded


def _check_storage(entry: Entry) -> None:
    if not entry.packed:
        if entry.storage >= len(PLAIN):
            raise TensorError(f"tensor {entry.name!r}: unknown dtype code {entry.storage}")
    elif entry.storage & 0x60:
        raise TensorError(f"tensor {entry.name!r}: unknown packing 0x{entry.storage:02x}")
    elif entry.storage & _CHANNEL and not entry.shape:
        raise TensorError(f"tensor {entry.name!r}: a scalar has no channels to scale")
