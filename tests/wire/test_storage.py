"""Where the bytes of a transfer lie."""

import pytest

from wire.storage import BLOCK, MemoryStorage, blocks

pytestmark = pytest.mark.light


def check_writes_in_any_order(storage):
    storage.write(4, b"ef")
    storage.write(0, b"ab")
    storage.write(2, memoryview(b"cd"))
    assert storage.read(0, 6) == b"abcdef"
    assert storage.read(3, 2) == b"de"
    assert storage.read(4, 100) == b"ef"
    assert storage.read(6, 1) == b""


def test_memory_takes_writes_in_any_order_and_grows():
    data = bytearray()
    check_writes_in_any_order(MemoryStorage(data))
    assert data == b"abcdef"


def test_bytes_can_be_read_but_not_written():
    storage = MemoryStorage(b"abc")
    assert storage.read(1, 1) == b"b"
    with pytest.raises(TypeError, match="give a bytearray"):
        storage.write(0, b"x")


def test_blocks_cover_the_content_and_no_more():
    data = bytes(BLOCK) + b"tail" + b"beyond"
    pieces = list(blocks(MemoryStorage(data), BLOCK + 4))
    assert [len(p) for p in pieces] == [BLOCK, 4]
    assert b"".join(pieces) == data[: BLOCK + 4]
