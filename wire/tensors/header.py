"""The header of a tensor message: name, storage and shape of each tensor.

The layout is part of the format that `wire/tensors` specifies. Before deflation the header is five columns, each
over all tensors in ascending order of their UTF-8 names; columns deflate better than rows:

    count     varint, the number of tensors n
    shared    n bytes: number of leading bytes a name shares with the previous name
    names     n times: the rest of the name, then 0x0A
    storage   n bytes: how the tensor is stored, see wire/tensors/entries.py
    dims      n times: varint number of dimensions, then each dimension as varint

A varint is LEB128: seven bits a byte, least significant first, the top bit set on all but the last byte.

A header has one valid encoding: the reader encodes what it decoded and compares.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.errors import TensorError
from wire.tensors.entries import Entry, Limits, check_entries

__all__ = ["read_columns", "write_columns"]


def write_columns(entries: Sequence[Entry]) -> bytes:
    """The header of `entries`, which are in ascending order of their UTF-8 names."""
    out, shared, rests = bytearray(), bytearray(), bytearray()
    _put_varint(out, len(entries))
    before = b""
    for entry in entries:
        name = entry.name.encode()
        same = min(_shared(before, name), 255)
        shared.append(same)
        rests += name[same:] + b"\n"
        before = name
    out += shared + rests + bytes(e.storage for e in entries)
    for entry in entries:
        _put_varint(out, len(entry.shape))
        for dim in entry.shape:
            _put_varint(out, dim)
    return bytes(out)


def read_columns(raw: bytes, limits: Limits) -> list[Entry]:
    """The entries of a header; every field is within `limits` and in its one valid form."""
    count, at = _take_varint(raw, 0)
    if count > limits.max_tensors:
        raise TensorError(f"header: {count} tensors, at most {limits.max_tensors} are allowed")
    names, at = _read_names(raw, at, count, limits)
    storage, at = raw[at : at + count], at + count
    if len(storage) < count:
        raise TensorError("header: ends within the storage column")
    entries = []
    for name, code in zip(names, storage, strict=True):
        shape, at = _read_shape(raw, at, name, limits)
        entries.append(Entry(name, code, shape))
    if at != len(raw):
        raise TensorError(f"header: {len(raw) - at} bytes too many")
    check_entries(entries, limits)
    if write_columns(entries) != raw:
        raise TensorError("header: not in its canonical form")
    return entries


def _read_names(raw: bytes, at: int, count: int, limits: Limits) -> tuple[list[str], int]:
    shared, at = raw[at : at + count], at + count
    names: list[str] = []
    before = b""
    for same in shared:
        end = raw.find(b"\n", at, at + limits.max_name + 1)
        if end < 0 or same > len(before):
            break
        before, at = before[:same] + raw[at:end], end + 1
        try:
            names.append(before.decode())
        except UnicodeDecodeError:
            raise TensorError(f"tensor {before!r}: its name is not UTF-8") from None
    if len(names) < count:
        where = f"after {names[-1]!r}" if names else "at the first one"
        raise TensorError(f"header: the names break off {where}")
    return names, at


def _read_shape(raw: bytes, at: int, name: str, limits: Limits) -> tuple[tuple[int, ...], int]:
    try:
        count, at = _take_varint(raw, at)
        if count > limits.max_dims:
            raise TensorError(f"{count} dimensions, at most {limits.max_dims} are allowed")
        dims = []
        for _ in range(count):
            dim, at = _take_varint(raw, at)
            dims.append(dim)
    except TensorError as exc:
        raise TensorError(f"tensor {name!r}: {exc}") from None
    return tuple(dims), at


def _shared(a: bytes, b: bytes) -> int:
    """Length of the common prefix: the XOR of two big-endian numbers starts where they differ."""
    n = min(len(a), len(b))
    differ = int.from_bytes(a[:n], "big") ^ int.from_bytes(b[:n], "big")
    return n - (differ.bit_length() + 7) // 8


def _put_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _take_varint(raw: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 63, 7):
        if at >= len(raw):
            raise TensorError("header breaks off within a number")
        value |= (raw[at] & 0x7F) << shift
        at += 1
        if raw[at - 1] < 0x80:
            return value, at
    raise TensorError("a number of more than 63 bits")
