"""One chunk as it travels."""

import hashlib

import pytest

from core.errors import TopicError, TransferError
from wire.chunks import DEFAULT_CHUNK, MAX_CHUNK, OVERHEAD, Content, decode_chunk, encode_chunk

pytestmark = pytest.mark.light

DATA = b"0123456789"
CONTENT = Content(digest=hashlib.sha256(DATA).hexdigest(), size=10, chunk_size=4)


def test_content_is_cut_into_chunks_of_which_the_last_is_shorter():
    assert CONTENT.count == 3
    assert [CONTENT.span(n) for n in range(3)] == [(0, 4), (4, 4), (8, 2)]


def test_empty_content_is_one_empty_chunk():
    empty = Content(digest=hashlib.sha256(b"").hexdigest(), size=0)
    assert empty.count == 1
    assert empty.span(0) == (0, 0)
    assert bytes(decode_chunk(encode_chunk(empty, 0, b"")).data) == b""


def test_the_bytes_of_a_chunk_are_these():
    head = b"\x01\x0a\0\0\0\x04\0\0\0\x02\0\0\0" + hashlib.sha256(DATA).digest()
    assert encode_chunk(CONTENT, 2, b"89") == head + hashlib.sha256(head + b"89").digest()[:16] + b"89"


def test_a_chunk_comes_back():
    chunk = decode_chunk(encode_chunk(CONTENT, 1, b"4567"))
    assert (chunk.content, chunk.n, bytes(chunk.data)) == (CONTENT, 1, b"4567")


def test_the_largest_chunk_stays_below_the_broker_s_limit():
    assert OVERHEAD == 61
    assert DEFAULT_CHUNK == 65_536
    largest = Content(digest=CONTENT.digest, size=MAX_CHUNK, chunk_size=MAX_CHUNK)
    topic_and_packet = 160
    assert len(encode_chunk(largest, 0, bytes(MAX_CHUNK))) + topic_and_packet < 2_000_000
    with pytest.raises(TransferError, match="chunk size 1900001"):
        Content(digest=CONTENT.digest, size=1, chunk_size=MAX_CHUNK + 1)


def test_every_flip_of_one_bit_and_every_truncation_is_refused():
    data = encode_chunk(CONTENT, 1, b"4567")
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(TransferError):
            decode_chunk(bytes(flipped))
    for end in range(len(data)):
        with pytest.raises(TransferError):
            decode_chunk(data[:end])
    with pytest.raises(TransferError, match="damaged or cut"):
        decode_chunk(data + b"\0")


def test_content_larger_than_the_receiver_allows_is_refused():
    data = encode_chunk(CONTENT, 0, b"0123")
    assert decode_chunk(data, max_size=10).n == 0
    with pytest.raises(TransferError, match="10 bytes is over the 9"):
        decode_chunk(data, max_size=9)


def test_a_packet_larger_than_any_chunk_is_refused():
    with pytest.raises(TransferError, match="chunk of 1900062 bytes"):
        decode_chunk(bytes(1_900_062))


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"digest": "abc"}, TopicError, "64 lowercase hex"),
        ({"size": -1}, TransferError, "content of -1 bytes"),
        ({"size": 2**30}, TransferError, "at most 536870912"),
        ({"chunk_size": 0}, TransferError, "chunk size 0"),
        ({"size": 70_000, "chunk_size": 1}, TransferError, "70000 chunks, at most 65536"),
    ],
)
def test_absurd_content_is_refused(changes, error, text):
    with pytest.raises(error, match=text):
        Content(**({"digest": CONTENT.digest, "size": 10, "chunk_size": 4} | changes))


def test_a_chunk_number_past_the_last_is_refused():
    with pytest.raises(TransferError, match="chunk 3: there are 3, counted from 0"):
        CONTENT.span(3)
    with pytest.raises(TransferError, match="chunk -1"):
        CONTENT.span(-1)


def test_a_source_that_changed_its_length_is_noticed():
    with pytest.raises(TransferError, match="chunk 0: 3 bytes, must be 4; did the source change"):
        encode_chunk(CONTENT, 0, b"012")
