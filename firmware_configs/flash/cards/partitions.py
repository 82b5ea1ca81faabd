"""Locates the FAT and ext4 partitions of a disk: MBR and GPT, read from the disk's first sectors.

    MBR   sector 0: four entries of 16 bytes from byte 446, then 55 AA; type at 4, first sector at 8, sectors at 12
    GPT   sector 1: "EFI PART"; table's sector at 72, number of entries at 80, their size at 84;
          an entry: type at 0, first sector at 32, last sector at 40

A type is only a hint, so the boot sector of the partition itself is checked. A disk without a table that starts with
such a boot sector is one FAT file system. Sectors have 512 bytes, as on every SD card.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from core.errors import ConfigError

__all__ = ["SECTOR", "Partition", "ext_partitions", "fat_partitions"]

SECTOR = 512
GPT_MBR = 0xEE  # the type of the one MBR entry that stands for a GPT
MAX_ENTRIES = 256


@dataclass(frozen=True, slots=True)
class Partition:
    """A file system on a disk, in bytes."""

    number: int  # counted from 1; 0: the whole disk
    offset: int
    size: int


def fat_partitions(disk: BinaryIO, what: str) -> list[Partition]:
    """The FAT file systems of a disk, in the order of its table; `what` names it in errors."""
    end = disk.seek(0, 2)
    first = _read(disk, 0, SECTOR)
    if len(first) < SECTOR or first[510:] != b"\x55\xaa":
        raise ConfigError(f"{what}: no partition table and no FAT file system; {_advice(first)}")
    if _is_fat(first):
        return [Partition(0, 0, end)]
    return [entry for entry in _listed(disk, first, end, what) if _is_fat(_read(disk, entry.offset, SECTOR))]


def ext_partitions(disk: BinaryIO, what: str) -> list[Partition]:
    """The ext4 file systems of a disk, in the order of its table; none if there is no table that can be read."""
    end = disk.seek(0, 2)
    first = _read(disk, 0, SECTOR)
    if _is_ext(disk, 0):
        return [Partition(0, 0, end)]
    if len(first) < SECTOR or first[510:] != b"\x55\xaa" or _is_fat(first):
        return []
    return [entry for entry in _listed(disk, first, end, what) if _is_ext(disk, entry.offset)]


def _listed(disk: BinaryIO, first: bytes, end: int, what: str) -> list[Partition]:
    listed = list(_gpt(disk, what) if GPT_MBR in _types(first) else _mbr(first))
    for entry in listed:
        if entry.offset + entry.size > end:
            raise ConfigError(f"{what}: partition {entry.number} ends beyond the file; was the download cut short?")
    return listed


def _mbr(first: bytes) -> Iterator[Partition]:
    for number in range(4):
        kind, start, sectors = struct.unpack_from("<4xB3xII", first, 446 + 16 * number)
        if kind and start and sectors:
            yield Partition(number + 1, start * SECTOR, sectors * SECTOR)


def _gpt(disk: BinaryIO, what: str) -> Iterator[Partition]:
    header = _read(disk, SECTOR, SECTOR)
    if header[:8] != b"EFI PART":
        raise ConfigError(f"{what}: its table says GPT, but there is none; write the image to it again")
    table, count, size = struct.unpack_from("<QII", header, 72)
    if not (1 <= count <= MAX_ENTRIES and 128 <= size <= 4096):
        raise ConfigError(f"{what}: a GPT with {count} entries of {size} bytes; write the image to it again")
    entries = _read(disk, table * SECTOR, count * size)
    for number in range(len(entries) // size):
        entry = entries[number * size : (number + 1) * size]
        start, last = struct.unpack_from("<QQ", entry, 32)
        if any(entry[:16]) and last >= start > 0:
            yield Partition(number + 1, start * SECTOR, (last - start + 1) * SECTOR)


def _types(first: bytes) -> set[int]:
    return {first[446 + 16 * number + 4] for number in range(4)}


def _is_fat(sector: bytes) -> bool:
    """A boot sector of FAT12, FAT16 or FAT32: the jump, sane sizes, and the name that mkfs and Windows write."""
    if len(sector) < SECTOR or sector[510:] != b"\x55\xaa" or sector[0] not in (0xEB, 0xE9):
        return False
    (bytes_per_sector,) = struct.unpack_from("<H", sector, 11)
    return bytes_per_sector in (512, 1024, 2048, 4096) and b"FAT" in (sector[54:57], sector[82:85])


def _is_ext(disk: BinaryIO, offset: int) -> bool:
    """A superblock of ext2, 3 or 4: 1024 bytes into the file system, with its magic number at 56."""
    return _read(disk, offset + 1024, 58)[56:58] == b"\x53\xef"


def _advice(first: bytes) -> str:
    packed = {b"\xfd7zXZ": "unxz", b"\x1f\x8b": "gunzip", b"PK\x03\x04": "unzip", b"\x28\xb5\x2f\xfd": "unzstd"}
    for magic, tool in packed.items():
        if first.startswith(magic):
            return f"it is compressed: run {tool} first"
    return "give the image of a card"


def _read(disk: BinaryIO, offset: int, size: int) -> bytes:
    disk.seek(offset)
    return disk.read(size)
