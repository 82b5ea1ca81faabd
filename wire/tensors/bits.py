"""Small integers in a dense bit array, and back.

A *level* is what a quantizer emits: -1 or 1 at 1 bit, and the symmetric range -(2^(b-1)-1) .. 2^(b-1)-1 at b = 2, 4, 8
bits. Level i occupies bits b*i .. b*i+b-1 of the array, counted from the least significant bit of byte 0:

    1 bit    1 means +1, 0 means -1
    2, 4, 8  two's complement, the order in which ONNX stores INT2 and INT4; the code of -2^(b-1) is never used

The padding bits of the last byte are 0. Unpacking refuses an unused code and a padding bit that is 1, so a sequence of
levels has exactly one packed form. Errors are `ValueError`: only the caller knows the tensor's name.

>>> pack_levels(np.array([1, -1, 1, 1], np.int8), 1)
array([13], dtype=uint8)
>>> pack_levels(np.array([7, -1, 0], np.int8), 4)
array([247,   0], dtype=uint8)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["BITS", "check_levels", "pack_levels", "packed_size", "unpack_levels"]

BITS = (1, 2, 4, 8)


def packed_size(count: int, bits: int) -> int:
    """Size in bytes of `count` levels of `bits` bits."""
    return (count * bits + 7) // 8


def check_levels(levels: NDArray[Any], bits: int) -> None:
    """Refuse levels that `bits` bits cannot hold."""
    if levels.size == 0:
        return
    if bits == 1:
        if not (np.abs(levels) == 1).all():  # abs(int8 -128) is -128: refused as well
            raise ValueError("1-bit levels must be -1 or 1")
        return
    top = 2 ** (bits - 1) - 1
    low, high = int(levels.min()), int(levels.max())
    if low < -top or high > top:
        raise ValueError(f"{bits}-bit levels must lie in {-top} .. {top}, found {low} .. {high}")


def pack_levels(levels: NDArray[np.int8], bits: int) -> NDArray[np.uint8]:
    """The levels, in C order, as a bit array of `packed_size` bytes; they must have passed `check_levels`."""
    flat = levels.reshape(-1)
    if bits == 1:
        return np.packbits(flat > 0, bitorder="little")
    if bits == 8:
        return flat.view(np.uint8)
    per_byte = 8 // bits
    codes = np.zeros(packed_size(flat.size, bits) * per_byte, np.uint8)
    codes[: flat.size] = flat.view(np.uint8) & (2**bits - 1)
    packed: NDArray[np.uint8] = codes[0::per_byte].copy()
    for i in range(1, per_byte):
        packed |= codes[i::per_byte] << (bits * i)
    return packed


def unpack_levels(packed: NDArray[np.uint8], bits: int, count: int) -> NDArray[np.int8]:
    """The `count` levels of a bit array; the exact inverse of `pack_levels`."""
    if packed.size != packed_size(count, bits):
        raise ValueError(f"{count} levels of {bits} bits take {packed_size(count, bits)} bytes, found {packed.size}")
    used = count * bits % 8
    if used and int(packed[-1]) >> used:
        raise ValueError("the filling bits of the last byte are not 0")
    if bits == 1:
        signs: NDArray[np.int8] = np.unpackbits(packed, count=count, bitorder="little").view(np.int8)
        return 2 * signs - 1
    levels = _spread(packed, bits)[:count]
    if (levels == -(2 ** (bits - 1))).any():
        raise ValueError(f"unused {bits}-bit code {-(2 ** (bits - 1))}")
    return levels


def _spread(packed: NDArray[np.uint8], bits: int) -> NDArray[np.int8]:
    """Each `bits`-bit field of every byte as one sign-extended int8."""
    per_byte = 8 // bits
    fields = np.empty(packed.size * per_byte, np.uint8)
    for i in range(per_byte):
        # shift the field to the top of the byte: the arithmetic shift back then extends its sign
        fields[i::per_byte] = packed << (8 - bits * (i + 1))
    return fields.view(np.int8) >> (8 - bits)
