"""The FAT partitions of a disk are found by its table and their own boot sectors."""

from __future__ import annotations

import io
import lzma
import struct
from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.flash.cards.partitions import Partition, fat_partitions
from tests.firmware_configs.flash.made_cards import BOOKWORM, make_image, needs_tools


def boot_sector() -> bytes:
    sector = bytearray(512)
    sector[:3], sector[11:13], sector[82:87], sector[510:] = b"\xeb\x58\x90", b"\x00\x02", b"FAT32", b"\x55\xaa"
    return bytes(sector)


def mbr(*entries: tuple[int, int, int]) -> bytes:
    sector = bytearray(512)
    for number, entry in enumerate(entries):
        struct.pack_into("<4xB3xII", sector, 446 + 16 * number, *entry)
    sector[510:] = b"\x55\xaa"
    return bytes(sector)


@needs_tools
@pytest.mark.parametrize("table", ["dos", "gpt"])
def test_the_boot_partition_of_a_real_table_is_found(tmp_path: Path, table: str) -> None:
    image = make_image(tmp_path / "card.img", BOOKWORM, table=table)
    with image.open("rb") as disk:
        assert fat_partitions(disk, "card") == [Partition(1, 8192 * 512, 81920 * 512)]


def test_a_disk_without_a_table_may_be_one_file_system() -> None:
    disk = io.BytesIO(boot_sector() + bytes(512))
    assert fat_partitions(disk, "card") == [Partition(0, 0, 1024)]


def test_what_a_partition_holds_counts_not_what_its_type_says() -> None:
    table = mbr((0x0C, 1, 1), (0x83, 2, 1), (0x0C, 3, 1))
    disk = io.BytesIO(table + bytes(512) + boot_sector() + bytes(512))
    assert [part.number for part in fat_partitions(disk, "card")] == [2]


def test_an_image_that_was_cut_short_is_refused() -> None:
    with pytest.raises(ConfigError, match="partition 1 ends beyond the file"):
        fat_partitions(io.BytesIO(mbr((0x0C, 1, 9)) + boot_sector()), "card.img")


def test_a_compressed_image_is_named_as_such() -> None:
    packed = lzma.compress(bytes(range(256)) * 64, preset=0) + bytes(512)
    with pytest.raises(ConfigError, match=r"card\.img\.xz: .*run unxz first"):
        fat_partitions(io.BytesIO(packed), "card.img.xz")


@pytest.mark.parametrize("data", [b"", bytes(511), bytes(4096)])
def test_what_is_no_disk_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigError, match="no partition table"):
        fat_partitions(io.BytesIO(data), "x")


def test_a_gpt_that_is_announced_must_be_there() -> None:
    with pytest.raises(ConfigError, match="says GPT, but there is none"):
        fat_partitions(io.BytesIO(mbr((0xEE, 1, 3)) + bytes(2048)), "x")


@pytest.mark.parametrize(("count", "size"), [(0, 128), (1 << 31, 128), (128, 0), (128, 1 << 30)])
def test_a_gpt_of_absurd_size_is_refused(count: int, size: int) -> None:
    header = bytearray(512)
    header[:8] = b"EFI PART"
    struct.pack_into("<QII", header, 72, 2, count, size)
    with pytest.raises(ConfigError, match="a GPT with"):
        fat_partitions(io.BytesIO(mbr((0xEE, 1, 3)) + bytes(header) + bytes(2048)), "x")
